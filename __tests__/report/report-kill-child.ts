/** Writes a progress file again and again, always larger or smaller, until it is killed. Says so after the first time. */
import { writeSync } from "node:fs";
import { CheckpointFile, type Progress } from "langgraph-checkpoint-turns/checkpoint-file";

const file = new CheckpointFile(process.argv[2]!);

export function numbered(round: number): Progress {
  const tokens = { input: round, output: 0, cached: 0, reasoning: 0 };
  const notes = `round ${round}\n\n${"a line of notes\n".repeat((round * 997) % 4000)}`;
  const phase = { id: "p", name: "P", status: "in-progress" as const, startedAt: null, endedAt: null, notes, tokens };
  const resume = { lastPhase: null, nextPhase: "p", nextStep: null, canResume: true, reason: null };
  return { threadId: "t", phases: [phase], resume, totals: tokens };
}

async function main(): Promise<void> {
  for (let round = 1; ; round += 1) {
    await file.write(numbered(round));
    writeSync(1, `${round}\n`);
  }
}

void main();
