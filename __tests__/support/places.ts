import { randomBytes } from "node:crypto";
import { TurnSaver, type TurnSaverOptions } from "../../src/index";
import { PostgresTurnSaver } from "../../src/postgres/index";
import { tempFile } from "./temp";

/** Which engine the suites run on: SQLite, or with `TURNS_ENGINE=postgres` PostgreSQL. */
export const ON_POSTGRES = process.env["TURNS_ENGINE"] === "postgres";

/** What the names of schemas begin with: those of all test files of this worker, and those of this file. */
export const WORKER = `${process.env["TURNS_PG_RUN"] ?? "turns_test"}_w${process.env["JEST_WORKER_ID"] ?? "0"}_`;
export const FILE = `${WORKER}${randomBytes(4).toString("hex")}_`;
let places = 0;

/**
 * Where a new, empty store can be: a path, or PostgreSQL's address with `schema` as a parameter. Give it to {@link openSaver}, here or in another process.
 * It goes after the tests of the file.
 */
export function newPlace(): string {
  if (!ON_POSTGRES) return tempFile();
  const url = new URL(process.env["TURNS_PG_URL"] ?? "postgres://127.0.0.1/without-a-server");
  url.searchParams.set("schema", `${FILE}${(places += 1)}`);
  return url.href;
}

/** A saver on the store at a place of any engine. `":memory:"` is a store that nobody else opens. */
export function openSaver(place: string, options?: TurnSaverOptions): TurnSaver {
  if (place === ":memory:" && ON_POSTGRES) return openSaver(newPlace(), options);
  if (!place.startsWith("postgres")) return TurnSaver.fromPath(place, options);
  const { url, schema } = addressOf(place);
  return PostgresTurnSaver.fromConnString(url, { ...options, schema }) as unknown as TurnSaver;
}

/** What a place on PostgreSQL consists of. */
export function addressOf(place: string): { url: string; schema: string } {
  const url = new URL(place);
  const schema = url.searchParams.get("schema") ?? "turns";
  url.searchParams.delete("schema");
  return { url: url.href, schema };
}
