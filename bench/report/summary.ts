import { MEMORY, OFFICIAL, OURS } from "../drive/contenders";
import type { Result } from "../scenarios/scenario";
import { ratioText } from "./format";
import { table } from "./table";

/** What the scenarios call the same thing. */
const COLUMNS: readonly { title: string; measured: RegExp }[] = [
  {
    title: "step",
    measured: /^(share of a superstep|whole step|whole fork.*|save \(whole step\)|one invoke, last.*|whole step at 10,000)$/,
  },
  { title: "getTuple", measured: /^(getTuple \(warm\)|getTuple of an old checkpoint|getTuple at 10,000)$/ },
  { title: "list of 20", measured: /^list, limit 20$/ },
  { title: "resume", measured: /^resume/ },
  { title: "file", measured: /^file after close$/ },
];

/** One row per scenario: how many times slower or bigger the official saver and MemorySaver are than ours (normal, with turns). */
export function summaryText(results: readonly Result[]): string {
  const rows = results.flatMap((result) => {
    const cells = COLUMNS.map(({ measured }) => cell(result, measured));
    return cells.every((text) => text === "") ? [] : [[result.title, ...cells]];
  });
  if (rows.length === 0) return "";
  const head = ["official ÷ ours · memory ÷ ours", ...COLUMNS.map(({ title }) => title)];
  return `## Ratios\n\nOurs is TurnSaver normal with turns recorded.\n\n${table([head, ...rows])}\n`;
}

function cell({ samples }: Result, pattern: RegExp): string {
  const measured = samples.measured.find((name) => pattern.test(name));
  if (measured === undefined) return "";
  const ratios = [OFFICIAL, MEMORY].map((other) => samples.ratio(measured, other, OURS));
  return ratios.every((ratio) => ratio === undefined) ? "" : ratios.map(ratioText).join(" · ");
}
