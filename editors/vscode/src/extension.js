// Starts `noetl lsp` and connects the editor to it. The server has all knowledge of playbooks.
const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

const INSTALL = "pip install 'noetl-serverless[lsp]'";
const SELECTOR = [
  { language: "yaml", scheme: "file" },
  { language: "noetl", scheme: "file" },
  { language: "noetl", scheme: "untitled" },
];

let client;
let ready = Promise.resolve();

/** Return the command that serves the workspace: that of the settings, of its virtual environment, or of the PATH. */
function command(settings, folders, exists, platform) {
  const set = settings.get("path");
  if (set) return set;
  const inside = platform === "win32" ? [".venv", "Scripts", "noetl.exe"] : [".venv", "bin", "noetl"];
  const found = folders.map((folder) => path.join(folder, ...inside)).find(exists);
  return found ?? "noetl";
}

async function start() {
  const folders = vscode.workspace.isTrusted ? (vscode.workspace.workspaceFolders ?? []) : [];
  const run = command(
    vscode.workspace.getConfiguration("noetl"),
    folders.filter((folder) => folder.uri.scheme === "file").map((folder) => folder.uri.fsPath),
    fs.existsSync,
    process.platform,
  );
  const server = { command: run, args: ["lsp"], transport: TransportKind.stdio };
  client = new LanguageClient("noetl", "NoETL", server, { documentSelector: SELECTOR });
  try {
    await client.start();
  } catch (error) {
    // Not awaited: the extension, its command and its settings would be inactive until somebody answers.
    complain(`${run} lsp does not start: ${reason(error)}. Install it with ${INSTALL}, or name it in the settings.`);
  }
}

async function complain(message) {
  const choice = await vscode.window.showErrorMessage(message, "Settings");
  if (choice) vscode.commands.executeCommand("workbench.action.openSettings", "noetl.path");
}

/** Return the message of an error of the client, which may be a text, without its full stop. */
function reason(error) {
  return String(error?.message ?? error).replace(/\.$/, "");
}

async function stop() {
  const stopping = client;
  client = undefined;
  if (stopping?.isRunning()) await stopping.stop();
}

/** Start the server again, when it has started: settings may change while it does. */
function restart() {
  return (ready = ready.then(stop).then(start));
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("noetl.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) => change.affectsConfiguration("noetl.path") && restart()),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
  );
  await restart();
}

module.exports = { activate, deactivate: stop, command };
