// The workflows, as a Restate service. Prints its port. Actions that wait are started together; at most `inFlight` are inside at once.
import * as http2 from "node:http2";
import * as restate from "@restatedev/restate-sdk";

const gate = (places) => {
  const waiting = [];
  return async (action) => {
    if (places > 0) places -= 1;
    else await new Promise((resolve) => waiting.push(resolve));
    try {
      return await action();
    } finally {
      if (waiting.length > 0) waiting.shift()();
      else places += 1;
    }
  };
};

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

const work = restate.service({
  name: "work",
  handlers: {
    chain: async (ctx, { steps }) => {
      let last;
      for (let n = 0; n < steps; n += 1) last = await ctx.run("noop", () => n);
      return last;
    },
    python: async (ctx, { steps }) => {
      let last;
      for (let n = 0; n < steps; n += 1) last = await ctx.run("double", () => n * 2);
      return last;
    },
    map: async (ctx, { items, inFlight }) => {
      const through = gate(inFlight);
      const started = Array.from({ length: items }, (_, n) => ctx.run("item", () => through(async () => n * 2)));
      return sum(await restate.RestatePromise.all(started));
    },
    http: async (ctx, { items, inFlight, url }) => {
      const through = gate(inFlight);
      const call = async (n) => (await (await fetch(`${url}/${n}`)).json()).n;
      const started = Array.from({ length: items }, (_, n) => ctx.run("call", () => through(() => call(n))));
      return sum(await restate.RestatePromise.all(started));
    },
  },
});

const server = http2.createServer(restate.createEndpointHandler({ services: [work] }));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
