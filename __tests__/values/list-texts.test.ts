import Database from "better-sqlite3";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { quiet } from "../support/s1-tools";
import { tempFile } from "../support/temp";

const ID = "1f000000-0000-6000-8000-000000000001";
const LISTS: Readonly<Record<string, readonly unknown[]>> = {
  "ASCII alone": ["a".repeat(300), { text: "b".repeat(300) }],
  "a letter of Latin-1": [`ü${"a".repeat(300)}`, "b".repeat(300)],
  "letters of any length": [`€ 🦜 \u{10000} ${"ж".repeat(300)}`, `é${"a".repeat(300)}`],
  "one that is much longer than a page": ["a".repeat(70_000), "ü".repeat(1_100_000)],
  "a NUL and other control characters": [`\0\u0001\u001f${"a".repeat(300)}`, `"\\${"b".repeat(300)}`],
  "a number first": [1, 2.5, "a".repeat(300)],
};

function opened(path: string, encoding: string): TurnSaver {
  const db = new Database(path);
  db.pragma(`encoding = "${encoding}"`);
  return new TurnSaver(db, { logger: quiet });
}

describe.each(["UTF-8", "UTF-16le", "UTF-16be"])("a file in %s", (encoding) => {
  test.each(Object.entries(LISTS))("S2.1 gives the elements of a list back as they were: %s", async (_, list) => {
    const path = tempFile();
    const checkpoint = {
      ...{ v: 4, id: ID, ts: "2026-01-01T00:00:00.000Z" },
      ...{ channel_values: { list }, channel_versions: { list: 1 }, versions_seen: {} },
    };
    const thread = { configurable: { thread_id: "x", checkpoint_ns: "" } };
    const writer = opened(path, encoding);
    await writer.put(thread, checkpoint, { source: "input", step: -1, parents: {} }, { list: 1 });
    writer.close();
    const reader = opened(path, encoding);
    expect((await reader.getTuple(thread))?.checkpoint.channel_values).toEqual({ list });
    expect((await reader.verify()).ok).toBe(true);
    reader.close();
  });
});
