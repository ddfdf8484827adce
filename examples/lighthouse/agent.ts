// A historian asks archives about a lighthouse, and writes letters to them. The models are made up, so it needs no network.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import {
  Annotation,
  type BaseCheckpointSaver,
  END,
  interrupt,
  MessagesAnnotation,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { defineEffect } from "langgraph-checkpoint-turns";

/** The post office, which is the world outside: a file with a letter in each line. */
const POST_OFFICE = process.env["LETTERS"] ?? "letters.txt";
const posted = (): string[] => (existsSync(POST_OFFICE) ? readFileSync(POST_OFFICE, "utf8").split("\n").filter(Boolean) : []);
const receiptOf = (key: string): string | undefined => {
  const at = posted().findIndex((line) => line.startsWith(key));
  return at === -1 ? undefined : `no. ${at + 1}`;
};

const letter = defineEffect("letter", {
  run: async ({ about }: { about: string }, { key }) => {
    appendFileSync(POST_OFFICE, `${key} ${about}\n`);
    await sleep(150);
    // Here run.ts kills the process: the letter is in the post, and nobody has written down its receipt.
    if (about === process.env["DIES_AT"]) {
      process.send?.("posted");
      await sleep(60_000);
    }
    return receiptOf(key) ?? "lost";
  },
  probe: ({ key }) => receiptOf(key),
  undo: ({ key }) =>
    writeFileSync(
      POST_OFFICE,
      posted()
        .map((line) => (line.startsWith(key) ? `retracted ${line}` : line))
        .join("\n") + "\n",
    ),
});

const usage = (input: number, output: number) => ({ input_tokens: input, output_tokens: output, total_tokens: input + output });

interface Step {
  status: string;
  /** What each worker looks up. */
  a: string;
  b: string;
  /** What each worker asks by letter. */
  lettersOfA: readonly string[];
  lettersOfB: readonly string[];
  finding: string;
}

const STEPS: Readonly<Record<string, Step>> = {
  "1-plan": {
    status: "planned",
    a: "harbour board minutes",
    b: "keepers' logs",
    lettersOfA: [],
    lettersOfB: [],
    finding: "Two archives are worth asking.",
  },
  "2-read": {
    status: "read",
    a: "minutes of 1858",
    b: "log of 1861",
    lettersOfA: [],
    lettersOfB: [],
    finding: "The light was first lit on 2 October 1858.",
  },
  "3-extract": {
    status: "extracted",
    a: "figures in the minutes",
    b: "figures in the log",
    lettersOfA: [],
    lettersOfB: [],
    finding: "The sources differ on its height: 37 m and 42 m.",
  },
  "4-cross-check": {
    status: "checking",
    a: "the architect's estate",
    b: "the ministry's survey",
    lettersOfA: ["name of the architect", "year of the first light", "range in miles"],
    lettersOfB: ["height in metres", "number of keepers", "colour of the tower"],
    finding: "37 m it is: 42 m included the rock.",
  },
};
const stepOf = (task: string): Step => STEPS[task] ?? (STEPS["1-plan"] as Step);

const Research = Annotation.Root({
  ...MessagesAnnotation.spec,
  task: Annotation<string>,
  status: Annotation<string>,
  topics: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
});
type Worker = "work_a" | "work_b";

const hasFailed = new Set<string>();

function worker(name: Worker) {
  return async ({ task }: typeof Research.State) => {
    const step = stepOf(task);
    const [wanted, letters] = name === "work_a" ? [step.a, step.lettersOfA] : [step.b, step.lettersOfB];
    await sleep(name === "work_a" ? 120 : 180);
    if (task === "3-extract" && name === "work_a" && !hasFailed.has(task)) {
      hasFailed.add(task);
      throw new Error("the archive closed the connection");
    }
    const receipts: string[] = [];
    for (const about of letters) {
      // Its archive is slow, so the other worker has finished when the process is killed.
      while (name === "work_b" && !posted().some((line) => line.endsWith("range in miles"))) await sleep(100);
      if (name === "work_b") await sleep(700);
      receipts.push(`${about}: ${await letter({ about })}`);
    }
    const found = receipts.length === 0 ? `Found: ${wanted}.` : `Asked: ${receipts.join("; ")}.`;
    return {
      messages: [new ToolMessage({ content: found, tool_call_id: `${task}-${name}`, name: "search_archive" })],
      topics: [...letters],
    };
  };
}

/** planner → (work_a ∥ work_b) → review, once for each task. */
export const lighthouse = (saver: BaseCheckpointSaver) =>
  new StateGraph(Research)
    .addNode("planner", async ({ task }) => {
      await sleep(100);
      const step = stepOf(task);
      const call = (name: Worker, query: string) => ({
        id: `${task}-${name}`,
        name: "search_archive",
        args: { query },
        type: "tool_call" as const,
      });
      const content = `For ${task} I ask both archives.`;
      const tool_calls = [call("work_a", step.a), call("work_b", step.b)];
      return { status: step.status, messages: [new AIMessage({ content, tool_calls, usage_metadata: usage(14, 9) })] };
    })
    .addNode("work_a", worker("work_a"), { retryPolicy: { maxAttempts: 3, initialInterval: 100, logWarning: false } })
    .addNode("work_b", worker("work_b"))
    .addNode("review", async ({ task }) => {
      await sleep(80);
      return { messages: [new AIMessage({ content: stepOf(task).finding, usage_metadata: usage(7, 5) })] };
    })
    .addEdge(START, "planner")
    .addEdge("planner", "work_a")
    .addEdge("planner", "work_b")
    .addEdge(["work_a", "work_b"], "review")
    .addEdge("review", END)
    .compile({ checkpointer: saver });

export default lighthouse;

const Invoice = Annotation.Root({ ...MessagesAnnotation.spec, amount: Annotation<number>, decision: Annotation<string> });

const pay = defineEffect("pay", {
  run: ({ amount }: { amount: number }) => ({ paid: amount }),
  undo: () => undefined,
});

/** read → approve, which asks a person → pay. */
export const invoice = (saver: BaseCheckpointSaver) =>
  new StateGraph(Invoice)
    .addNode("read", async () => {
      await sleep(60);
      return {
        amount: 1240,
        messages: [new AIMessage({ content: "The invoice is for €1,240.", usage_metadata: usage(310, 12) })],
      };
    })
    .addNode("approve", ({ amount }) => ({ decision: interrupt<unknown, string>(`Approve €${amount.toLocaleString("en-US")}?`) }))
    .addNode("pay", async ({ amount, decision }) => {
      if (decision === "yes") await pay({ amount });
      return { messages: [new AIMessage(decision === "yes" ? "Paid." : "Not paid.")] };
    })
    .addEdge(START, "read")
    .addEdge("read", "approve")
    .addEdge("approve", "pay")
    .addEdge("pay", END)
    .compile({ checkpointer: saver });

const Support = Annotation.Root({ ...MessagesAnnotation.spec, customer: Annotation<string> });

/** search → answer. The search of one customer meets a busy server; the answer to another takes too long. */
export const support = (saver: BaseCheckpointSaver) =>
  new StateGraph(Support)
    .addNode("search", async ({ customer }) => {
      await sleep(60);
      if (customer === "880" && process.env["SEARCH"] !== "ready") throw new Error("429 Too Many Requests");
      const content = `Two tickets of customer ${customer}.`;
      return { messages: [new AIMessage({ content, usage_metadata: usage(52, 11) })] };
    })
    .addNode("answer", async ({ customer }) => {
      if (process.env["LEAVES_AT"] === customer) {
        process.send?.("answering");
        await sleep(60_000);
      }
      return { messages: [new AIMessage({ content: `Dear customer ${customer}, it is fixed.`, usage_metadata: usage(64, 20) })] };
    })
    .addEdge(START, "search")
    .addEdge("search", "answer")
    .addEdge("answer", END)
    .compile({ checkpointer: saver });

const Report = Annotation.Root({
  ...MessagesAnnotation.spec,
  day: Annotation<string>,
  lines: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
});

/** collect → write. */
export const report = (saver: BaseCheckpointSaver) =>
  new StateGraph(Report)
    .addNode("collect", async ({ day }) => {
      await sleep(20);
      return { lines: [`${day}: 41 boats, wind from the west`] };
    })
    .addNode("write", ({ day }) => ({
      messages: [new AIMessage({ content: `The report of ${day} is written.`, usage_metadata: usage(820, 95) })],
    }))
    .addEdge(START, "collect")
    .addEdge("collect", "write")
    .addEdge("write", END)
    .compile({ checkpointer: saver });
