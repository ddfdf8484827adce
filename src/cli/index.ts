#!/usr/bin/env node
import { setFlagsFromString } from "node:v8";

// Commands read millions of rows and keep few. On a machine with much memory, V8 would let four times of what is in use pile up
// as garbage before it collects: 60 MB more for `turns prune`, in no less time.
setFlagsFromString("--heap-growing-percent=50");
// While LangGraph is loaded, Node 24 would let the space for new objects grow to 64 MB, and keep it. The default is 2.
setFlagsFromString("--semi-space-growth-factor=1");
const { hasLoadedModule, print, run } = await import("./program");
setFlagsFromString("--semi-space-growth-factor=2");

// A reader that has seen enough (`| head`) closes the pipe. That's no error.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => {
    const isClosed = error.code === "EPIPE";
    if (!isClosed) process.stderr.write(`turns: The output can't be written: ${error.message}.\n`);
    process.exit(isClosed ? 0 : 1);
  });

void run(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
  if (hasLoadedModule()) print("", () => process.exit(code));
});
