import Database from "better-sqlite3";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { Deeds, quietLogger } from "../support/eff-world";
import { dieNow } from "../support/s1-tools";
import { crashUndos, type Kind, pointAtCommits } from "./undo-crash";

/** Rewinds to task a and dies at the n-th point by a real SIGKILL: `undo-child.ts <db> <ledger> <calls> <kind> <n>`. */
const [dbPath = "", ledger = "", calls = "", kind = "plain", killAt = "0"] = process.argv.slice(2);

const points: string[] = [];
let isOpen = false;
const point = (what: string): void => {
  points.push(what);
  if (points.length === Number(killAt)) dieNow();
};

async function main(): Promise<void> {
  const db = new Database(dbPath);
  pointAtCommits(db, (what) => {
    if (isOpen) point(what);
  });
  const saver = new TurnSaver(db, { logger: quietLogger() });
  isOpen = true;
  const undos = crashUndos(kind as Kind, new Deeds(ledger), new Deeds(calls), point);
  try {
    const report = await saver.rewind({ threadId: "t", toTask: "a" }, undos);
    process.stdout.write(JSON.stringify({ points, undone: report.effects.undone.map(({ name }) => name) }));
  } catch (error) {
    process.stdout.write(JSON.stringify({ points, code: (error as { code?: string }).code }));
  }
  saver.close();
}

void main();
