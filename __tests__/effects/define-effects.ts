import { defineEffect } from "langgraph-checkpoint-turns";
import { Deeds } from "../support/eff-world";

/** Effects as an application defines them: at the top level of a module. The world is a ledger that outlives each process. */
const world = new Deeds(process.env["WORLD"] ?? "");
const dieIn = process.env["DIE_IN"] ?? "";

export interface Issue {
  number: number;
  marker: string;
}

function tracked(key: string): Issue | undefined {
  const opened = world.lines().filter((line) => line.startsWith("open "));
  const number = opened.findIndex((line) => line.endsWith(` ${key}`)) + 1;
  return number === 0 ? undefined : { number, marker: key };
}

export const createIssue = defineEffect("create issue", {
  run: ({ title }: { title: string }, { key }) => {
    if (dieIn === "before the deed") process.kill(process.pid, "SIGKILL");
    world.do(`open ${title} ${key}`);
    if (dieIn === "after the deed") process.kill(process.pid, "SIGKILL");
    return tracked(key) as Issue;
  },
  probe: ({ key }) => tracked(key),
  undo: {
    run: ({ key, input, result }) => {
      world.do(`close ${input.title} ${result.number} ${key}`);
      if (dieIn === "undo") process.kill(process.pid, "SIGKILL");
    },
    probe: ({ key }) => world.lines().some((line) => line.startsWith("close ") && line.endsWith(` ${key}`)),
  },
});
