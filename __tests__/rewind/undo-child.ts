import Database from "better-sqlite3";
import { TurnSaver } from "langgraph-checkpoint-turns";
import { ON_POSTGRES, openSaver } from "../support/open-saver";
import { Deeds, quietLogger } from "../support/eff-world";
import { dieNow } from "../support/s1-tools";
import { crashUndos, type Kind, pointAtCommits, pointAtServerCommits } from "./undo-crash";

/** Rewinds to task a and dies at the n-th point by a real SIGKILL: `undo-child.ts <db> <ledger> <calls> <kind> <n>`. */
const [dbPath = "", ledger = "", calls = "", kind = "plain", killAt = "0"] = process.argv.slice(2);

const points: string[] = [];
let isOpen = false;
const point = (what: string): void => {
  points.push(what);
  if (points.length === Number(killAt)) dieNow();
};

function opened(atCommit: (what: string) => void): TurnSaver {
  const options = { logger: quietLogger() };
  if (ON_POSTGRES) return openSaver(dbPath, options);
  const db = new Database(dbPath);
  pointAtCommits(db, atCommit);
  return new TurnSaver(db, options);
}

async function main(): Promise<void> {
  const saver = opened((what) => {
    if (isOpen) point(what);
  });
  await saver.setup();
  if (ON_POSTGRES) pointAtServerCommits(point);
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
