/** Imports from the official PostgresSaver and dies by SIGKILL after a save. Arguments: engine and path of the target, schema, number of the save. */
import { importOfficialPostgres } from "../../src/import/index";
import { TurnSaver } from "../../src/index";
import { openSaver } from "../support/open-saver";
import { dieNow, quiet } from "../support/s1-tools";

const [, , engine, target = "", schema = "", at = "0"] = process.argv;
const saver = engine === "SQLite" ? TurnSaver.fromPath(target, { logger: quiet }) : openSaver(target, { logger: quiet });
let saves = 0;
for (const method of ["put", "putWrites"] as const) {
  const real = saver[method].bind(saver) as (...args: unknown[]) => Promise<unknown>;
  (saver as any)[method] = async (...args: unknown[]) => {
    const result = await real(...args);
    if ((saves += 1) === Number(at)) dieNow();
    return result;
  };
}
await importOfficialPostgres(saver, process.env["TURNS_PG_URL"] ?? "", { schema });
