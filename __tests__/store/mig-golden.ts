/**
 * Writes __tests__/store/golden/schema.sql again, after a migration was added:
 *
 *   node --import tsx __tests__/store/mig-golden.ts
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TurnSaver } from "../../src/index";
import { schemaOf } from "./mig-schema";

const folder = mkdtempSync(join(tmpdir(), "golden-"));
TurnSaver.fromPath(join(folder, "agent.db")).close();
writeFileSync(new URL("./golden/schema.sql", import.meta.url), schemaOf(join(folder, "agent.db")));
rmSync(folder, { recursive: true });
