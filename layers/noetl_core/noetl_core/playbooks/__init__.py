"""`playbooks` prepares texts of playbooks for the engine: `parsed` caches parsed playbooks by digest, `called_files` finds
called playbooks in the same folder, `script_files` includes the text of script files. No playbook is run here."""
