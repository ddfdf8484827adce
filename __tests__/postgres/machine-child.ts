/**
 * `machine-child.ts <schema> <run|resume> <hours> <nodes> <ledger>`: a machine of its own, whose clock is off by so many hours. It runs or
 * resumes thread "t", a line of nodes that take 20 ms each and write their names into the ledger. Prints what became of it, as JSON.
 */
import { appendFileSync } from "node:fs";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { effect, GraphRunner } from "../../src/index";
import { PostgresTurnSaver } from "../../src/postgres/index";
import { quiet } from "../support/s1-tools";

const [schema = "", what = "", hours = "0", nodes = "1", ledger = ""] = process.argv.slice(2);
const now = Date.now.bind(Date);
const RealDate = Date;
const off = Number(hours) * 3_600_000;
globalThis.Date = class extends RealDate {
  constructor(...given: [] | [number]) {
    super(...((given.length === 0 ? [now() + off] : given) as [number]));
  }
  static override now = (): number => now() + off;
} as DateConstructor;

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => left.concat(right), default: () => [] }),
});
const saver = PostgresTurnSaver.fromConnString(process.env["TURNS_PG_URL"]!, { schema, logger: quiet });
const names = Array.from({ length: Number(nodes) }, (_, at) => `n${at}`);
const builder = new StateGraph(State) as unknown as StateGraph<typeof State, typeof State.State, typeof State.Update, string>;
for (const [at, name] of names.entries()) {
  builder.addNode(name, async () => {
    if (at === 0) await effect("first", () => appendFileSync(ledger, "first\n"));
    await new Promise((done) => setTimeout(done, 20));
    appendFileSync(ledger, `${name}\n`);
    return { log: [name] };
  });
  builder.addEdge(at === 0 ? START : (names[at - 1] as string), name);
}
const runner = new GraphRunner(builder.compile({ checkpointer: saver }));
const limits = { threadId: "t", recursionLimit: 1_000 };
const told = await (what === "run" ? runner.invoke({ log: ["in"] }, limits) : runner.resume(limits)).then(
  (result) => ({ result }),
  ({ code, message }: { code?: string; message: string }) => ({ code, message }),
);
await saver.close();
process.stdout.write(`${JSON.stringify(told)}\n`);
