import { MEMORY, OFFICIAL } from "../drive/contenders";
import type { Result } from "../scenarios/scenario";
import { bytesText, quartilesText, ratioText } from "./format";

type Row = readonly string[];

/** A scenario as Markdown that can be read in a terminal as well: one row per saver and thing measured. */
export function scenarioText(result: Result): string {
  const unique = result.facts["unique bytes"];
  const notes = [...result.notes];
  if (unique !== undefined) notes.push(`The state once, as JSON: ${bytesText(unique)}.`);
  const list = notes.map((note) => `- ${note}`).join("\n");
  return `## ${result.title}\n\n${list}${list === "" ? "" : "\n\n"}${table(rowsOf(result))}\n`;
}

function rowsOf({ contenders, samples }: Result): Row[] {
  const has = (id: string): boolean => contenders.some((contender) => contender.id === id);
  const compared = [OFFICIAL, MEMORY].filter(has);
  const head = [
    "measured",
    "saver",
    "median (quartiles)",
    ...compared.map((id) => (id === OFFICIAL ? "official ÷ this" : "memory ÷ this")),
  ];
  const rows: Row[] = [head];
  for (const measured of samples.measured) {
    const unit = samples.unit(measured);
    let label = unit === "ms" ? `${measured}, ms` : measured;
    for (const { id, name } of contenders) {
      const quartiles = samples.quartiles(measured, id);
      if (quartiles === undefined) continue;
      const ratios = compared.map((other) => (other === id ? "" : ratioText(samples.ratio(measured, other, id))));
      rows.push([label, name, quartilesText(quartiles, unit), ...ratios]);
      label = "";
    }
  }
  return rows;
}

/** Cells aren't padded: the results are a part of the package, and half of them would be spaces. */
export function table(rows: readonly Row[]): string {
  const columns = rows[0]?.length ?? 0;
  const line = (row: Row): string => `| ${Array.from({ length: columns }, (_, column) => row[column] ?? "").join(" | ")} |`;
  const [head = [], ...body] = rows;
  return [line(head), `|${"---|".repeat(columns)}`, ...body.map(line)].join("\n");
}
