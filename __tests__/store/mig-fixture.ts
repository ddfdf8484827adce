/**
 * Writes the fixtures of the newest schema, a plain and an encrypted file with what has to be read from them:
 *
 *   node --import tsx __tests__/store/mig-fixture.ts [--replace]
 *
 * Fixtures of a version that was released are never written again: `--replace` is for one that is still being made.
 */
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { sqliteMigrations } from "../../src/testing-internal";
import { FIXTURES, goneOnWith, toldOf, writeFixture } from "./mig-world";

const folder = fileURLToPath(new URL("./fixtures", import.meta.url));
mkdirSync(folder, { recursive: true });
const version = sqliteMigrations.at(-1)?.version ?? 0;
const temporary = mkdtempSync(join(tmpdir(), "turns-fixture-"));
for (const [suffix, options] of Object.entries(FIXTURES)) {
  const name = `schema-${version}${suffix}`;
  const target = join(folder, `${name}.db`);
  if (existsSync(target) && !process.argv.includes("--replace")) {
    console.error(`${name}.db is there. Was version ${version} released? Then add a migration instead. If not: --replace`);
    process.exit(1);
  }
  const path = join(temporary, `${name}.db`);
  await writeFixture(path, options);
  copyFileSync(path, target);
  const told = await toldOf(path, options);
  const goneOn = await goneOnWith(path, options);
  writeFileSync(join(folder, `${name}.json`), JSON.stringify({ told, goneOn }));
}
rmSync(temporary, { recursive: true });
