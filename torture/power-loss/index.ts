import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { numberOf } from "../numbers";
import { type Left, recordAgain } from "./again";
import { checkOfficial } from "./check-official";
import { checkTurns, goOn } from "./check-turns";
import { type Exploration, explore, summed } from "./explore";
import { record, whyNoStrace } from "./record";

const USAGE = `npm run torture -- power-loss [--images N] [--seed S] [--saver turns|normal|official|both] [--rounds R]

  --images   disk images of each saver, default 900
  --saver    turns: this package; normal: with synchronous "normal"; official: @langchain/langgraph-checkpoint-sqlite; both: all three
  --rounds   how much work is recorded, default 2`;

interface Contender {
  name: string;
  script: string;
  given: readonly string[];
  check: typeof checkTurns;
  goOn?: typeof goOn;
  /** Whether an acknowledged save may be lost. No image may be corrupt. */
  mayLose: boolean;
  /** Some of the images are opened and continued, and the power is cut again. */
  again?: string;
}

type Row = [Pick<Contender, "name" | "mayLose">, Exploration];

const GO_ON_EVERY = 10;
/** How many images are continued and recorded again, and how many images of each of these records are opened. */
const [AGAIN, IMAGES_AGAIN] = [6, 30];

const CONTENDERS: Record<string, Contender> = {
  turns: {
    name: "TurnSaver",
    script: "writer.ts",
    given: ["full"],
    check: checkTurns,
    goOn,
    mayLose: false,
    again: "writer-again.ts",
  },
  normal: {
    ...{ name: 'TurnSaver, durability "normal"', script: "writer.ts", given: ["normal"] },
    ...{ check: checkTurns, mayLose: true },
  },
  official: {
    ...{ name: "official SqliteSaver", script: "writer-official.ts", given: [] },
    ...{ check: checkOfficial, mayLose: true },
  },
};

/** Cuts the power while each saver works. @returns whether none was corrupt, and no save of ours was lost */
export async function run(options: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...options],
    options: {
      images: { type: "string", default: "900" },
      seed: { type: "string", default: String(Date.now() % 1_000_000) },
      saver: { type: "string", default: "both" },
      rounds: { type: "string", default: "2" },
      help: { type: "boolean", default: false },
    },
  });
  const names = values.saver === "both" ? Object.keys(CONTENDERS) : [values.saver];
  const [images, seed] = [numberOf("images", values.images, 1), numberOf("seed", values.seed)];
  if (values.help || !names.every((name) => Object.hasOwn(CONTENDERS, name)) || !(images >= 1)) {
    console.log(USAGE);
    return values.help;
  }
  const refused = whyNoStrace();
  if (refused !== undefined) {
    console.error(`The power-loss explorer needs strace: ${refused}.`);
    return false;
  }
  console.log(`seed ${seed}\n`);
  const rows: Row[] = [];
  for (const name of names) {
    const contender = CONTENDERS[name] as Contender;
    const { check, goOn: further } = contender;
    const operations = await record(pathOf(contender.script), [...contender.given, values.rounds]);
    const left: Left[] = [];
    let shown = 0;
    const onImage = (image: Left["image"], expected: Left["expected"]): void => {
      shown += 1;
      if (shown % 100 === 0) console.error(`${shown} images`);
      if (contender.again !== undefined && shown % Math.ceil(images / AGAIN) === 0) left.push({ image, expected });
    };
    const found = await explore(operations, { images, seed, check, goOn: further, goOnEvery: GO_ON_EVERY, onImage });
    rows.push(shownRow([contender, found]));
    if (contender.again !== undefined) {
      rows.push(
        shownRow([
          { name: `${contender.name}, cut again while it continues`, mayLose: false },
          await again(contender, left, seed),
        ]),
      );
    }
  }
  console.log(tableOf(rows));
  const isSeeing = rows.every(([{ mayLose }, { lost }]) => !mayLose || lost > 0);
  if (!isSeeing)
    console.log("\nA saver that syncs less lost nothing. So the explorer finds no losses, or there were too few images.");
  return isSeeing && rows.every(([{ mayLose }, found]) => found.corrupt + found.astray + (mayLose ? 0 : found.lost) === 0);
}

/** Continues with each image that was left, records that too, and adds up what is found. */
async function again(
  { again: script = "", check, goOn: further }: Contender,
  left: readonly Left[],
  seed: number,
): Promise<Exploration> {
  let sum: Exploration | undefined;
  for (const [nth, each] of left.entries()) {
    const { operations, from } = await recordAgain(pathOf(script), each);
    const request = { images: IMAGES_AGAIN, seed: seed + nth, from, check, goOn: further, goOnEvery: GO_ON_EVERY };
    const found = await explore(operations, request);
    sum = sum === undefined ? found : summed(sum, found);
  }
  if (sum === undefined) throw new Error("there are too few images to continue with");
  return sum;
}

function pathOf(script: string): string {
  return fileURLToPath(new URL(`./${script}`, import.meta.url));
}

function shownRow(row: Row): Row {
  const [{ name }, { examples, midst }] = row;
  const counts = Object.entries(midst).map(([what, count]) => `${what} ${count}`);
  const lines = [...examples, ...(counts.length === 0 ? [] : [`images during: ${counts.join(", ")}`])];
  console.log(`${name}:\n${lines.map((line) => `  ${line}\n`).join("")}`);
  return row;
}

function tableOf(rows: readonly Row[]): string {
  const lines = rows.map(([{ name }, found]) =>
    [
      name,
      ...[found.operations, found.syncs, found.acks, found.cuts, found.images, found.corrupt, found.lost],
      found.goneOn === 0 ? "–" : `${found.goneOn}, ${found.astray} deviated`,
    ].join(" | "),
  );
  return [
    "| saver | operations | syncs | acknowledgements | cuts | images | corrupt | lost acknowledged | continued |",
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ...lines.map((line) => `| ${line} |`),
  ].join("\n");
}
