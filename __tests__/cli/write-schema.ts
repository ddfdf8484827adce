import { writeFileSync } from "node:fs";
import path from "node:path";
import { schemaText } from "./shapes";

/** Writes the JSON schema of the command line: `npx tsx __tests__/cli/write-schema.ts`. */
writeFileSync(path.join("etc", "command-line.schema.json"), schemaText());
