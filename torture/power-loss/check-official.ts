import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import type { Findings } from "./check-turns";
import { type Expected, lostOf } from "./expected";
import { checkpointsOf } from "./facts";

/** Opens an image with the official saver. Only what it acknowledged itself is looked for: checkpoints. */
export async function checkOfficial(path: string, expected: Expected): Promise<Findings> {
  const findings: Findings = { corrupt: [], lost: [], astray: [] };
  let saver: SqliteSaver | undefined;
  try {
    saver = SqliteSaver.fromConnString(path);
    const told = (saver.db.pragma("integrity_check") as object[]).map((row) => JSON.stringify(row));
    findings.corrupt.push(...told.filter((text) => text !== '{"integrity_check":"ok"}'));
    for (const [id, thread] of expected.threads) {
      const lost = lostOf(thread, await checkpointsOf(saver, id));
      findings.lost.push(...lost.map((what) => `thread ${id}: ${what}`));
    }
  } catch (error) {
    findings.corrupt.push(String(error));
  } finally {
    saver?.db.close();
  }
  return findings;
}
