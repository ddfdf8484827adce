import { threadNamed } from "../../inspection/place";
import { titled } from "../../inspection/effects";
import { effectsInDoubt, outcomeOf } from "../../inspection/standing";
import { effectLine, type EffectLine } from "../../inspection/turns";
import type { Effect } from "../../effects/types";
import { rewindLine, type RewindLine, type TakeBack, takeBackCommand, takeBackOf } from "../../inspection/rewinds";
import { atLeastOne, command, oneOf, whole } from "../command";
import { UsageError } from "../exit";
import { type Colour, type Column, type Look, moreText, nextText, table } from "../look";
import { turns } from "../../inspection/words";
import { ago, plural } from "../text";

const COLOURS: Readonly<Record<Effect["status"], Colour>> = {
  done: "green",
  failed: "yellow",
  "failed-for-good": "red",
  running: "blue",
  "in-doubt": "red",
};

type TitledEffect = EffectLine & { title: string };

export const EFFECT_COLUMNS: readonly Column<TitledEffect>[] = [
  { title: "#", value: ({ number }) => String(number), align: "right" },
  { title: "EFFECT", value: ({ title }) => title, shrinks: 10 },
  { title: "NODE", value: ({ node }) => node, shrinks: 8, optional: 2 },
  { title: "STATUS", value: statusOf, colour: ({ status }) => COLOURS[status] },
  { title: "STARTED", value: ({ startedAt }, { now }) => ago(startedAt, now), align: "right" },
  { title: "UNDO", value: ({ undo }) => (undo === null ? "none" : undo === "" ? "not needed" : undo), shrinks: 6, optional: 1 },
  { title: "ID", value: ({ id }) => id, optional: 3 },
];

function statusOf({ status, undoStatus }: EffectLine): string {
  if (undoStatus === null || undoStatus === undefined) return status;
  return { begun: "undo in doubt", done: "undone", failed: "undo failed" }[undoStatus];
}

/** Without their ids nobody can settle them, and their titles tell them apart: at 80 columns there is little room for more. */
const OVER_ALL: readonly Column<TitledEffect>[] = [
  { title: "THREAD", value: ({ threadId }) => threadId, shrinks: 12 },
  ...EFFECT_COLUMNS.slice(1).map((column): Column<TitledEffect> => {
    if (column.title === "ID") return { ...column, optional: undefined };
    return column.title === "EFFECT"
      ? { ...column, shrinks: 18 }
      : column.title === "STARTED"
        ? { ...column, optional: 3 }
        : column;
  }),
];

const STATUSES = ["done", "failed", "failed-for-good", "running", "in-doubt"] as const;

interface EffectsOptions {
  inDoubt?: boolean;
  status?: Effect["status"];
  limit?: number;
  cursor?: number;
}

export const EFFECTS = command<EffectsOptions>({
  name: "effects",
  args: "[thread]",
  summary: "the journal of a thread's side effects; without a thread, those in doubt over all threads",
  examples: ["turns effects", "turns effects order-17", "turns effects order-17 --status failed --json"],
  options: [
    ["--in-doubt", "only effects that somebody may have to settle"],
    ["--status <status>", STATUSES.join(", "), oneOf(STATUSES)],
    ["--limit <n>", "at most so many of a thread (default 200)", atLeastOne],
    ["--cursor <seq>", "continue where the last page stopped", whole],
  ],
  run: async (saver, [thread], { inDoubt = false, status, limit = 200, cursor }) => {
    if (inDoubt && status !== undefined) throw new UsageError("--in-doubt and --status exclude each other.", "Give one.");
    if (thread === undefined || inDoubt) {
      if (thread === undefined && status !== undefined && status !== "in-doubt")
        throw new UsageError(`--status ${status} needs a thread.`, "Name it: turns effects THREAD --status …");
      const threadId = thread === undefined ? undefined : await threadNamed(saver, thread);
      const found = (await effectsInDoubt(saver)).filter((effect) => threadId === undefined || effect.threadId === threadId);
      const lines: EffectLine[] = [];
      for (const { id } of found) lines.push(effectLine(await saver.effects.get(id)));
      const effects = await titled(saver, lines);
      const text = (look: Look): string => {
        const [first] = found;
        if (first === undefined) return "No effect is in doubt.";
        const [yes, no] =
          outcomeOf(first) === "done" ? (["done", "not-done"] as const) : (["undo-done", "undo-not-done"] as const);
        const settled = (outcome: string): string => turns("effect resolve", [first.id, outcome]);
        const next = nextText(
          [[turns("status", [first.threadId])], [settled(yes), "it happened"], [settled(no), "it didn't happen"]],
          look,
        );
        return `${table(effects, OVER_ALL, look)}\n\n${next}`;
      };
      return { data: { effects, cursor: null }, list: "effects", text };
    }
    const page = await saver.effects.list(await threadNamed(saver, thread), { status, limit, after: cursor });
    const effects = await titled(saver, page.map(effectLine));
    const text = (look: Look): string =>
      effects.length === 0 ? "No effects." : table(effects, EFFECT_COLUMNS, look) + moreText(page.cursor, look);
    return { data: { effects, cursor: page.cursor ?? null }, list: "effects", text };
  },
});

const REWIND_COLUMNS: readonly Column<RewindLine & TakeBack>[] = [
  { title: "WHEN", value: ({ at }, { now }) => ago(at, now), align: "right" },
  { title: "TO TASK", value: ({ toTask }) => toTask, shrinks: 10 },
  { title: "STATUS", value: ({ status }) => status, colour: ({ status }) => (status === "undoing" ? "red" : undefined) },
  { title: "UNDID", value: ({ undone }) => (undone === 0 ? "" : plural(undone, "effect")), optional: 3 },
  { title: "REASON", value: ({ reason }) => reason ?? "asked for", shrinks: 10, optional: 1 },
  { title: "ARCHIVE", value: ({ archived }) => (archived ? "kept" : "none"), optional: 2 },
  { title: "ID", value: ({ id }) => id },
];

export const REWINDS = command({
  name: "rewinds",
  args: "<thread>",
  summary: "the rewinds of a thread, newest first",
  examples: ["turns rewinds order-17", "turns rewinds order-17 --json", "turns rewinds order-17 --fields id,toTask,at"],
  run: async (saver, [thread = ""]) => {
    const rewinds: (RewindLine & TakeBack)[] = [];
    for (const line of (await saver.rewinds.list(await threadNamed(saver, thread))).map(rewindLine).reverse())
      rewinds.push({ ...line, ...(await takeBackOf(saver, line.id)) });
    const text = (look: Look): string => {
      if (rewinds.length === 0) return "It was never rewound.";
      const first = rewinds.find(({ refused }) => refused === null);
      const next = first && nextText([[takeBackCommand(first.id, first.undone), "takes it back"]], look);
      return [table(rewinds, REWIND_COLUMNS, look), ...(next === undefined ? [] : [next])].join("\n\n");
    };
    return { data: { rewinds }, list: "rewinds", text };
  },
});
