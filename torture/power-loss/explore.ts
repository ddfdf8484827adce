import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seeded } from "../../bench/drive/words";
import type { Findings } from "./check-turns";
import { type Image, imageAt, type Operation, type Survivors } from "./disk";
import { type Expected, expectedAt } from "./expected";
import { laidOut } from "./record";

export interface Exploration {
  operations: number;
  syncs: number;
  acks: number;
  cuts: number;
  /** All images of a cut differ. */
  images: number;
  /** The number of images in which an operation that removes or adds rows was in progress at the cut, by operation. */
  midst: Record<string, number>;
  corrupt: number;
  lost: number;
  /** Images that were continued, and how many of them reached another state than they should. */
  goneOn: number;
  astray: number;
  /** The first few problems. */
  examples: string[];
}

export interface ExploreRequest {
  images: number;
  seed: number;
  check: (path: string, expected: Expected) => Promise<Findings>;
  /** Continues the work of an image. */
  goOn?: (path: string, expected: Expected) => Promise<string[]>;
  /** One of this many images is continued. */
  goOnEvery?: number;
  /** The first operation that the power may be cut before. */
  from?: number;
  /** Called with each image. */
  onImage?: (image: Image, expected: Expected) => void;
}

/** One image keeps everything, one keeps what was synced, and four are drawn at random. If everything was synced, they are the same. */
const PER_CUT: readonly Survivors[] = ["all", "synced", "some", "some", "some", "some"];
/** Its multiples fall evenly everywhere, however many are taken. */
const GOLDEN = 0.6180339887498949;
/** How many operations after the one that created or removed a file still count as near it. */
const NEAR = 24;
const EXAMPLES = 12;

/** Cuts the power at many places of the record, and checks the images that can result. */
export async function explore(operations: readonly Operation[], request: ExploreRequest): Promise<Exploration> {
  const random = seeded(request.seed);
  const count = (kind: Operation["kind"]): number => operations.filter((operation) => operation.kind === kind).length;
  const result: Exploration = {
    ...{ operations: operations.length, syncs: count("sync"), acks: count("ack"), cuts: 0, images: 0, midst: {} },
    ...{ corrupt: 0, lost: 0, goneOn: 0, astray: 0, examples: [] },
  };
  const home = mkdtempSync(join(tmpdir(), "turns-image-"));
  const told = (cut: number, survivors: Survivors, found: readonly string[]): void => {
    const [first] = found;
    if (first !== undefined && result.examples.length < EXAMPLES)
      result.examples.push(
        `power cut before operation ${cut}, ${survivors} of the unsynced kept: ${first} (${found.length} in all)`,
      );
  };
  try {
    for (const cut of cutsOf(operations, request.from ?? 0, random)) {
      if (result.images >= request.images) break;
      const expected = expectedAt(operations, cut);
      const seen = new Set<string>();
      result.cuts += 1;
      for (const survivors of PER_CUT) {
        const image = imageAt(operations, cut, survivors, random);
        const digest = digestOf(image);
        if (seen.has(digest) || result.images >= request.images) continue;
        seen.add(digest);
        const { corrupt, lost } = await request.check(laidOut(join(home, "disk"), image), expected);
        if (corrupt.length > 0) result.corrupt += 1;
        if (lost.length > 0) result.lost += 1;
        told(cut, survivors, [...corrupt, ...lost]);
        if (request.goOn !== undefined && result.images % (request.goOnEvery ?? 1) === 0) {
          const astray = await request.goOn(laidOut(join(home, "disk"), image), expected);
          result.goneOn += 1;
          if (astray.length > 0) result.astray += 1;
          told(cut, survivors, astray);
        }
        for (const what of underwayIn(expected)) result.midst[what] = (result.midst[what] ?? 0) + 1;
        result.images += 1;
        request.onImage?.(image, expected);
      }
    }
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
  return result;
}

/**
 * Cuts, evenly over the record, without end. One third lies right after acknowledgements, where a loss shows first. One sixth lies
 * near the creation or removal of files, which is rare.
 */
function* cutsOf(operations: readonly Operation[], from: number, random: () => number): Generator<number> {
  const placesOf = (...kinds: Operation["kind"][]): number[] =>
    operations.flatMap(({ kind }, at) => (at >= from && kinds.includes(kind) ? [at + 1] : []));
  const acks = placesOf("ack");
  const rare = placesOf("create", "unlink", "sync-folder");
  for (let [nth, place] = [0, random()]; ; nth += 1, place = (place + GOLDEN) % 1) {
    const among = nth % 3 === 0 ? acks : nth % 6 === 1 ? rare : [];
    if (among.length === 0) yield from + Math.floor(place * (operations.length - from + 1));
    else {
      const near = among === rare ? Math.floor(random() * NEAR) : 0;
      yield Math.min((among[Math.floor(place * among.length)] as number) + near, operations.length);
    }
  }
}

function underwayIn({ threads }: Expected): Set<string> {
  return new Set([...threads.values()].flatMap(({ underway }) => (underway === undefined ? [] : [underway.what])));
}

function digestOf(image: Image): string {
  const hash = createHash("sha256");
  for (const [name, bytes] of [...image].sort(([left], [right]) => (left < right ? -1 : 1))) {
    hash.update(`${name} ${bytes.length}\n`).update(bytes);
  }
  return hash.digest("base64url");
}

/** The sum of two explorations. */
export function summed(left: Exploration, right: Exploration): Exploration {
  const midst = { ...left.midst };
  for (const [what, count] of Object.entries(right.midst)) midst[what] = (midst[what] ?? 0) + count;
  const added = (key: Exclude<keyof Exploration, "examples" | "midst">): number => left[key] + right[key];
  return {
    ...{ operations: added("operations"), syncs: added("syncs"), acks: added("acks"), cuts: added("cuts") },
    ...{ images: added("images"), corrupt: added("corrupt"), lost: added("lost") },
    ...{ goneOn: added("goneOn"), astray: added("astray"), midst, examples: [...left.examples, ...right.examples] },
  };
}
