import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { RunnableConfig } from "@langchain/core/runnables";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { defineEffect, type TurnSaver } from "langgraph-checkpoint-turns";
import { contradicts, crossCheck, extractFacts, reportLine, TOPICS, type Fact, type Finding, type TextFile } from "./facts";
import type { Ledger } from "./ledger";
import { ScriptedModel } from "./model";
import type { Outbox } from "./outbox";

/** All tasks run on this thread. */
export const THREAD = "skarholm";

/** The plan: five tasks, in this order, on one thread. */
export const TASKS = ["1-plan", "2-read", "3-extract", "4-cross-check", "5-report"] as const;
export type TaskId = (typeof TASKS)[number];
type Half = "a" | "b";

/** What the tasks work out; each adds its part. */
interface Material {
  files: string[];
  texts: TextFile[];
  facts: Fact[];
  findings: Finding[];
  /** What the post office answered to our letters. */
  receipts: string[];
  lines: string[];
}

const State = Annotation.Root({
  task: Annotation<TaskId>,
  /** The plan of the current task: which half does which items. */
  plan: Annotation<Record<Half, string[]>>,
  /** What the two halves of the current task have come up with. The planner empties it. */
  drafts: Annotation<Partial<Record<Half, Partial<Material>>>, Partial<Record<Half, Partial<Material>>> | null>({
    reducer: (old, added) => (added === null ? {} : { ...old, ...added }),
    default: () => ({}),
  }),
  material: Annotation<Partial<Material>>({ reducer: (old, added) => ({ ...old, ...added }), default: () => ({}) }),
  /** One line per node, for people. */
  notes: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
});
type AgentState = typeof State.State;

export interface AgentSettings {
  saver: TurnSaver;
  ledger: Ledger;
  textsFolder: string;
  reportFile: string;
  /** How long one item of work takes, milliseconds. */
  pace: number;
  outbox: Outbox;
  /** Called when a letter is out and its receipt has not come yet. */
  onPosted?: (node: string, subject: string) => Promise<void>;
}

/** The agent: plan → (work_a ∥ work_b) → review, once per task. */
export function createAgent(settings: AgentSettings) {
  const model = new ScriptedModel({});

  /** Everything a body does is between these two lines of the ledger. */
  async function inLedger<T>(state: AgentState, node: string, body: () => Promise<T>): Promise<T> {
    settings.ledger.write("began", state.task, node);
    const result = await body();
    settings.ledger.write("ended", state.task, node);
    return result;
  }

  const plan = (state: AgentState, config: RunnableConfig) =>
    inLedger(state, "planner", async () => {
      const items = itemsOf(state, settings.textsFolder);
      const answer = await model.invoke(`Split the work of task ${state.task} in two:\n${items.join("\n")}`, config);
      const halves = JSON.parse(answer.text) as Record<Half, string[]>;
      return { plan: halves, drafts: null, notes: [`${items.length} items, split ${halves.a.length} and ${halves.b.length}`] };
    });

  /** A letter to the lighthouse museum: sent once for each topic, even if the node around it runs again. */
  const { outbox } = settings;
  const receiptFor = (subject: string): string => `accepted: ${subject}`;
  const inquire = defineEffect("letter", {
    run: async ({ node, subject }: { node: string; subject: string }, { key }) => {
      outbox.write("sent", key, subject);
      await settings.onPosted?.(node, subject);
      return receiptFor(subject);
    },
    // Asked when nobody knows whether the letter went out.
    probe: ({ key, input }) => (outbox.has("sent", key) ? receiptFor(input.subject) : undefined),
    // Called by a rewind.
    undo: ({ key, input }) => outbox.write("retracted", key, input.subject),
  });

  const work = (half: Half) => (state: AgentState) =>
    inLedger(state, `work_${half}`, async () => {
      const items = state.plan[half];
      const draft: Partial<Material> = {};
      for (const item of items) {
        await sleep(settings.pace);
        merge(draft, workOn(state.task, item, state.material, settings.textsFolder));
        if (state.task === "4-cross-check")
          merge(draft, { receipts: [await inquire({ node: `work_${half}`, subject: item }, { id: item })] });
      }
      return { drafts: { [half]: draft }, notes: [summary(draft)] };
    });

  const review = (state: AgentState) =>
    inLedger(state, "review", async () => {
      const result: Partial<Material> = {};
      for (const half of ["a", "b"] as const) merge(result, state.drafts[half] ?? {});
      if (state.task === "5-report") writeFileSync(settings.reportFile, `${result.lines?.join("\n")}\n`);
      return { material: result, notes: [`together: ${summary(result)}`] };
    });

  return new StateGraph(State)
    .addNode("planner", plan)
    .addNode("work_a", work("a"))
    .addNode("work_b", work("b"))
    .addNode("review", review)
    .addEdge(START, "planner")
    .addEdge("planner", "work_a")
    .addEdge("planner", "work_b")
    .addEdge(["work_a", "work_b"], "review")
    .addEdge("review", END)
    .compile({ checkpointer: settings.saver });
}

function itemsOf({ task, material }: AgentState, folder: string): string[] {
  if (task === "1-plan") return readdirSync(folder).sort();
  if (task === "2-read") return material.files ?? [];
  if (task === "3-extract") return (material.texts ?? []).map((text) => text.name);
  return TOPICS;
}

function workOn(task: TaskId, item: string, material: Partial<Material>, folder: string): Partial<Material> {
  switch (task) {
    case "1-plan":
      return { files: [item] };
    case "2-read":
      return { texts: [{ name: item, text: readFileSync(path.join(folder, item), "utf8") }] };
    case "3-extract":
      return { facts: (material.texts ?? []).filter((text) => text.name === item).flatMap(extractFacts) };
    case "4-cross-check":
      return { findings: [crossCheck(item, material.facts ?? [])] };
    case "5-report":
      return { lines: (material.findings ?? []).filter((finding) => finding.topic === item).map(reportLine) };
  }
}

function merge(into: Partial<Material>, more: Partial<Material>): void {
  for (const [key, list] of Object.entries(more)) {
    const name = key as keyof Material;
    (into as Record<string, unknown[]>)[name] = [...(into[name] ?? []), ...list];
  }
}

function summary({ files, texts, facts, findings, receipts, lines }: Partial<Material>): string {
  if (files !== undefined) return `${files.length} files listed`;
  if (texts !== undefined)
    return `${texts.length} texts, ${texts.reduce((sum, { text }) => sum + text.split(/\s+/).length, 0)} words`;
  if (facts !== undefined) return `${facts.length} facts`;
  if (findings !== undefined) {
    const found = `${findings.length} topics, contradictions: ${findings.filter(contradicts).length}`;
    return `${found}, letters: ${receipts?.length ?? 0}`;
  }
  return `${lines?.length ?? 0} lines of the report`;
}
