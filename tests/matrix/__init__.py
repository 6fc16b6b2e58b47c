"""The tool matrix: what each kind of task does and how it fails, shown on both wirings. See README.md."""
