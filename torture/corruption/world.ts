import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { HumanMessage } from "@langchain/core/messages";
import { effect, TurnSaver, type TurnSaverOptions } from "../../src/index";

export const KEY = Buffer.from("6b1f0c93d2a4e58717c90ab3fe5d62480199aabbccddeeff1122334455667788", "hex").toString("base64");
export const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** What was done outside, by effect key. It shows a side effect that was done twice, under one key or two. */
export type Ledger = string[];

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  said: Annotation<unknown[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
  long: Annotation<string>(),
  fail: Annotation<boolean>(),
});
const long = (text: string): string => `${text} ${"· ".repeat(300)}`;

/** plan → (pay ∥ look) → ask, if it should, or done. `pay` has a side effect, and then fails if it should. */
export function graphOn(saver: TurnSaver, ledger: Ledger): any {
  let looked = (): void => undefined;
  const hasLooked = new Promise<void>((resolve) => (looked = resolve));
  const inner = new StateGraph(State)
    .addNode("first", () => ({ log: ["inner"] }))
    .addNode("second", (state) => ({ log: [`inner after ${state.log.length}`] }))
    .addEdge(START, "first")
    .addEdge("first", "second")
    .addNode("third", () => (looked(), {}))
    .addEdge("second", "third")
    .addEdge("third", END)
    .compile();
  const graph = new StateGraph(State)
    .addNode("plan", (state) => ({
      log: ["plan"],
      said: [new HumanMessage(long("hello"))],
      long: long(String(state.log.length)),
    }))
    .addNode("pay", async (state) => {
      const paid = await effect("charge", (key) => (ledger.push(key), `receipt ${key}`), {
        input: { amount: state.log.length, note: long("for") },
        undo: false,
      });
      // After the side effect, and not before the node beside it has finished.
      if (state.fail === true && ledger.at(-1) !== "mended") {
        await Promise.race([hasLooked, new Promise((resolve) => setTimeout(resolve, 300))]);
        await new Promise((resolve) => setTimeout(resolve, 30));
        throw new Error("the connection broke");
      }
      return { log: [String(paid).slice(0, 7)] };
    })
    .addNode("look", inner)
    .addNode("ask", () => ({ log: [`answer ${String(interrupt("what now?"))}`] }))
    .addNode("done", (state) => ({ log: [`done ${state.said.length}`] }))
    .addEdge(START, "plan")
    .addEdge("plan", "pay")
    .addEdge("plan", "look")
    .addEdge(["pay", "look"], "ask")
    .addEdge("ask", "done")
    .addEdge("done", END);
  return saver.attach(graph.compile({ checkpointer: saver }));
}

export const at = (threadId: string, more: object = {}): any => ({ configurable: { thread_id: threadId, ...more } });
export const answer = new Command({ resume: "continue" });

/** A folder of copies, so that one call removes them. */
export class Folder {
  readonly path = mkdtempSync(join(tmpdir(), "turns-corruption-"));
  #count = 0;

  file(): string {
    this.#count += 1;
    const folder = join(this.path, String(this.#count));
    mkdirSync(folder);
    return join(folder, "agent.db");
  }

  /** The file with what stands beside it. */
  copy(source: string): string {
    const target = this.file();
    for (const suffix of ["", "-wal"]) if (existsSync(source + suffix)) copyFileSync(source + suffix, target + suffix);
    return target;
  }

  forget(file: string): void {
    rmSync(join(file, ".."), { recursive: true, force: true });
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/**
 * Threads in every state a run leaves: finished, waiting for a person, failed after a side effect, rewound, copied, named.
 *
 * @param onState is called before something is rewound, and at the end, while the file is still open and much of it is in the log alone
 */
export async function build(
  path: string,
  threads: number,
  options: TurnSaverOptions,
  ledger: Ledger,
  onState?: () => void,
): Promise<string[]> {
  const saver = TurnSaver.fromPath(path, { logger: quiet, synchronous: "normal", ...options });
  const graph = graphOn(saver, ledger);
  const ids = Array.from({ length: threads }, (_, index) => `thread ${index}`);
  for (const [index, id] of ids.entries()) {
    await graph.invoke({ log: ["in"] }, at(id, { task_id: "first" }));
    if (index % 3 !== 1) await graph.invoke(answer, at(id, { task_id: "first" }));
    if (index % 3 === 2) {
      await saver.names.set({ threadId: id }, `good ${index}`);
      await graph.invoke({ log: ["again"] }, at(id, { task_id: "second" }));
      onState?.();
      await saver.rewind({ threadId: id, toTask: "first" });
    }
    if (index % 3 === 0 && index > 0) {
      await graph.invoke({ log: ["third"], fail: true }, at(id, { task_id: "third" })).catch(() => undefined);
    }
  }
  await saver.copyThread("thread 0", "copy");
  await saver.deleteThread("gone");
  onState?.();
  saver.close();
  return [...ids, "copy"];
}
