import { rmSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { fillOfficial } from "../../../__tests__/import/imp-world";
import { quiet } from "../../../__tests__/support/s1-tools";
import { tempFile } from "../../../__tests__/support/temp";
import { TurnSaver } from "../../../src/index";
import { importOfficial } from "../../../src/import/index";
import { answerLater } from "../answer";
import { CANARY } from "../judge";
import { mutated } from "../mutate";
import { nastyText } from "../nasty";
import type { Random } from "../random";
import type { Session } from "../target";

const COLUMNS = {
  checkpoints: ["thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"],
  writes: ["thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value"],
};

const PAYLOADS: readonly string[] = ["checkpoint", "metadata", "value"];

/** A cell of a file that LangGraph's own saver wrote, as somebody else has left it. */
interface Cell {
  table: keyof typeof COLUMNS;
  row: number;
  column: string;
  value: string | number | null;
  asBytes: boolean;
}

/** Files of the official saver: each is imported as it is, or left with a named error; the target verifies afterwards. */
export async function open(random: Random): Promise<Session> {
  const path = tempFile("official.db");
  await fillOfficial(path);
  const source = new Database(path);
  const seeds: Buffer[] = [];
  for (const [table, columns] of Object.entries(COLUMNS) as [Cell["table"], string[]][]) {
    const rows = source.prepare(`SELECT * FROM ${table} ORDER BY rowid`).all() as Record<string, unknown>[];
    for (const column of columns) {
      const row = random.below(rows.length);
      const value = rows[row]?.[column];
      const asBytes = Buffer.isBuffer(value);
      const text = asBytes ? value.toString() : (value as string | number | null);
      seeds.push(Buffer.from(JSON.stringify({ table, row, column, value: text, asBytes } satisfies Cell)));
    }
  }
  return {
    seeds,
    mutate: (input, other, by) => {
      const cell = JSON.parse(input.toString()) as Cell;
      const donor = JSON.parse(other.toString()) as Cell;
      if (by.once(6)) cell.asBytes = !cell.asBytes;
      if (by.once(6)) cell.row = by.below(40);
      if (by.once(8)) cell.value = by.of([null, 0, -1, 2 ** 40, 1.5, nastyText(by)]);
      else cell.value = mutated(String(cell.value), by.once(3) ? JSON.stringify({ note: CANARY }) : String(donor.value), by);
      // Ids may be told.
      if (typeof cell.value === "string" && !PAYLOADS.includes(cell.column)) cell.value = cell.value.replaceAll(CANARY, "c");
      return Buffer.from(JSON.stringify(cell));
    },
    feed: async (input) => {
      const { table, row, column, value, asBytes } = JSON.parse(input.toString()) as Cell;
      if (!COLUMNS[table].includes(column)) return "no cell";
      const stored = asBytes && value !== null ? Buffer.from(String(value)) : value;
      const count = source.prepare(`SELECT count(*) FROM ${table}`).pluck().get() as number;
      const found = source.prepare(`SELECT rowid AS id, ${column} AS old FROM ${table} ORDER BY rowid LIMIT 1 OFFSET ?`);
      const { id, old } = found.get(row % count) as { id: number; old: unknown };
      const update = source.prepare(`UPDATE ${table} SET ${column} = ? WHERE rowid = ?`);
      try {
        update.run(stored, id);
      } catch {
        return "refused by the table";
      }
      const saver = TurnSaver.fromPath(":memory:", { logger: quiet, synchronous: "normal" });
      try {
        const words: string[] = [];
        for (const onUnreadable of ["stop", "skip"] as const) {
          words.push(await answerLater(() => importOfficial(saver, path, { onUnreadable, existing: "skip" })));
        }
        await answerLater(
          () => saver.verify(),
          (report) => {
            // A checkpoint that was left out is missing as the parent of others: that is so in the file, too.
            const { problems } = report as Awaited<ReturnType<TurnSaver["verify"]>>;
            const wrong = problems.find(({ kind, expected }) => kind !== "reference" || !expected.endsWith("its parent"));
            return wrong && `an import that does not verify: ${JSON.stringify(wrong)}`;
          },
        );
        return words.join(" / ");
      } finally {
        saver.close();
        update.run(old, id);
      }
    },
    close: () => {
      source.close();
      rmSync(dirname(path), { recursive: true, force: true });
    },
  };
}
