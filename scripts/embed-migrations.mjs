/**
 * Writes the SQL files of migrations/<engine>/ into a TypeScript module per engine, so that a bundler carries them along.
 *
 *   node scripts/embed-migrations.mjs           write src/store/<engine>/migrations.generated.ts if it changed
 *   node scripts/embed-migrations.mjs --check   exit 1 if one is out of date
 */
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const ENGINES = ["sqlite", "postgres"];
const folderOf = (engine) => path.join(root, "migrations", engine);
const generatedFile = (engine) => path.join(root, "src", "store", engine, "migrations.generated.ts");

/** Reads `NNNN_name.sql` files: numbered 1, 2, 3 … without a gap, none empty. */
export function readMigrations(folder = folderOf("sqlite")) {
  const migrations = readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .sort()
    .map((file) => {
      const match = /^(\d{4})_([a-z0-9_]+)\.sql$/.exec(file);
      if (!match) throw new Error(`migration "${file}": expected a name like 0001_what_it_does.sql`);
      const text = readFileSync(path.join(folder, file), "utf8").replaceAll("\r\n", "\n");
      // Comments between statements are for those who read the file here: the package is smaller without them.
      const sql =
        text
          .replace(/^--.*\n/gm, "")
          .replace(/\n{2,}/g, "\n")
          .trim() + "\n";
      if (sql === "\n") throw new Error(`migration "${file}": expected SQL; found an empty file`);
      return { version: Number(match[1]), name: match[2], sql };
    });
  if (migrations.length === 0) throw new Error("expected at least one migration; found none");
  migrations.forEach(({ version, name }, index) => {
    if (version !== index + 1) throw new Error(`migration "${name}": expected number ${index + 1}; found ${version}`);
  });
  return migrations;
}

/** The text of the generated module; the same migrations always give the same text. */
export function renderMigrations(migrations = readMigrations(), engine = "sqlite") {
  const literal = (text) => "`" + text.replace(/[\\`]|\$(?=\{)/g, "\\$&") + "`";
  return [
    `// Generated from migrations/${engine}/*.sql by \`npm run migrations:embed\`. Do not edit: change the SQL files instead.`,
    "",
    `export const ${engine}Migrations: readonly { version: number; name: string; sql: string }[] = [`,
    ...migrations.flatMap(({ version, name, sql }) => [
      "  {",
      `    version: ${version},`,
      `    name: "${name}",`,
      `    sql: ${literal(sql)},`,
      "  },",
    ]),
    "];",
    "",
  ].join("\n");
}

function main() {
  for (const engine of ENGINES) embed(engine);
}

function embed(engine) {
  const text = renderMigrations(readMigrations(folderOf(engine)), engine);
  const file = generatedFile(engine);
  if (existsSync(file) && readFileSync(file, "utf8") === text) return;
  const name = path.relative(root, file);
  if (process.argv.includes("--check")) {
    console.error(`${name} is out of date; run: npm run migrations:embed`);
    process.exitCode = 1;
    return;
  }
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
  console.log(`wrote ${name}`);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) main();
