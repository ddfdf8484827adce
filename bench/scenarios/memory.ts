import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Samples } from "../measure/samples";
import type { Result, Scenario } from "./scenario";

const CHILD = fileURLToPath(new URL("./memory-child.ts", import.meta.url));

interface Used {
  peak: number;
  heap: number;
  outside: number;
}

/** Resident memory, each saver in a process of its own. */
export const memory: Scenario = {
  name: "memory",
  run: async ({ contenders: all, quick }): Promise<Result> => {
    const none = { id: "none", name: "no saver" } as Result["contenders"][number];
    const contenders = [none, ...all.filter(({ id }) => id !== "turns-full")];
    const messages = quick ? 100 : 300;
    const samples = new Samples();
    for (let round = 0; round < (quick ? 1 : 3); round += 1) {
      for (const { id } of contenders) {
        const used = await measured(id, messages);
        samples.add("peak resident memory", id, used.peak, "bytes");
        samples.add("heap in use after collection", id, used.heap, "bytes");
        samples.add("outside the heap after collection", id, used.outside, "bytes");
      }
    }
    const notes = [
      '"No saver" shows what Node, LangGraph and the conversation use by themselves. MemorySaver keeps its bytes outside the heap.',
    ];
    return { name: "memory", title: `Memory with a thread of ${messages} messages`, contenders, samples, facts: {}, notes };
  },
};

function measured(contenderId: string, messages: number): Promise<Used> {
  return new Promise((resolve, reject) => {
    const execArgv = [...process.execArgv, "--expose-gc"];
    const child = fork(CHILD, [contenderId, String(messages)], { execArgv });
    let used: Used | undefined;
    child.on("message", (message) => (used = message as Used));
    child.on("error", reject);
    child.on("exit", (code) => {
      if (code === 0 && used !== undefined) resolve(used);
      else reject(new Error(`the process of ${contenderId} exited with ${code}`));
    });
  });
}
