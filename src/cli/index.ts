#!/usr/bin/env node
import { run } from "./program";

// A reader that has seen enough (`| head`) closes the pipe. That's no error.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(0);
  });

void run(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
});
