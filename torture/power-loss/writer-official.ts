import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { seeded, textOf } from "../../bench/drive/words";
import { checkpointFact, THERE } from "./facts";
import { jobsGraph, receipt } from "./graph";
import { bareCheckpoint, tell } from "./telling";

/** The same graph and the same bare saves on the official saver, which has no effects, turns or rewinds: `writer-official.ts <database> <rounds>`. */
const [path = "", rounds = "1"] = process.argv.slice(2);
const ROUNDS = Number(rounds);
const random = seeded(11);

const saver = SqliteSaver.fromConnString(path);
(saver as unknown as { setup: () => void }).setup();
saver.db.pragma("wal_autocheckpoint = 30");
const put = saver.put.bind(saver);
saver.put = async (config, checkpoint, metadata) => {
  const saved = await put(config, checkpoint, metadata);
  const { thread_id: t, checkpoint_ns: ns = "", checkpoint_id: id } = saved.configurable as Record<string, string>;
  tell({ k: "fact", t: t ?? "", fact: checkpointFact(ns, id ?? ""), as: THERE });
  return saved;
};
tell({ k: "opened" });

const graph = jobsGraph(saver, async (deed, job) => receipt(deed, job));
for (let round = 1; round <= ROUNDS; round += 1) {
  for (const t of ["a", "b"]) await graph.invoke({ jobs: [`${t}${round}`], log: [] }, { configurable: { thread_id: t } });
}

const list: string[] = [];
let config: { configurable: Record<string, unknown> } = { configurable: { thread_id: "x", checkpoint_ns: "" } };
for (let at = 0; at < 4 * ROUNDS; at += 1) {
  for (let more = 0; more < 6; more += 1) list.push(textOf(random, 1_500));
  const { checkpoint, metadata } = bareCheckpoint(at, list);
  config = (await saver.put(config, checkpoint, metadata)) as typeof config;
}
for (let round = 1; round <= ROUNDS; round += 1) {
  await graph.invoke({ jobs: [`r${round}`], log: [] }, { configurable: { thread_id: "r" } });
}
tell({ k: "end" });
process.kill(process.pid, "SIGKILL");
