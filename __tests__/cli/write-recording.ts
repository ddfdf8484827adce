import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { recorded, RECORDING } from "./recorded";

/** Writes the recording of the command line, with the program that `npm run build` has made: `npm run recording`. */
mkdirSync(path.dirname(RECORDING), { recursive: true });
writeFileSync(RECORDING, await recorded(path.resolve(process.argv[2] ?? path.join("dist", "cli.js"))));
