import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { TurnsError } from "langgraph-checkpoint-turns";
import { CheckpointFile, type Progress } from "langgraph-checkpoint-turns/checkpoint-file";
import {
  fromInline,
  fromQuote,
  parseFile,
  parseProgress,
  renderInto,
  renderProgress,
  toInline,
  toQuote,
} from "../../src/testing-internal";
import { anyProgress, anyText, peoplesText } from "./arb-progress";
import { tempFile } from "../support/temp";
import { runs } from "../support/lane";

jest.setTimeout(60_000);

const MARKER = /^<!-- turns:/;

/** A file's text with others put in at the places between our blocks, each with an empty line around it. */
function withPeople(markdown: string, texts: readonly string[]): string {
  const lines = markdown.split("\n");
  let next = 0;
  const out: string[] = [];
  lines.forEach((line, index) => {
    const begins = MARKER.test(line) && line !== "<!-- turns:end -->";
    if (begins && next < texts.length) out.push(texts[next++]!, "");
    out.push(line);
    if (index === lines.length - 2 && next < texts.length) out.push("", texts[next++]!);
  });
  return out.join("\n");
}

/** The lines outside our blocks. */
function outside(markdown: string): string[] {
  const { text, head, sections } = parseFile(markdown, "f");
  const ours = [head, ...sections.values()];
  return text.lines.filter((line, index) => line.trim() !== "" && !ours.some(({ from, to }) => from <= index && index < to));
}

describe("S5.5 write, read, write is the identity", () => {
  test("S5.5 any text is one line of Markdown, or a quote, and is restored from it", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(fromInline(toInline(text))).toBe(text);
        expect(toInline(text)).not.toMatch(/[\r\n|]|^\s|\s$/);
        expect(fromQuote(toQuote(text))).toBe(text);
      }),
      { numRuns: runs(333, 2000) },
    );
  });

  test("S5.5 any valid progress is restored deep-equal, and renders to the same bytes again", () => {
    fc.assert(
      fc.property(anyProgress, (progress) => {
        const markdown = renderProgress(progress);
        const read = parseProgress(markdown);
        expect(read).toEqual(progress);
        expect(renderProgress(read)).toBe(markdown);
        expect(Buffer.from(markdown).toString()).toBe(markdown);
      }),
      { numRuns: runs(83, 500) },
    );
  });

  test("S5.5 through the file: write, read and write again leave the same bytes", async () => {
    const path = tempFile("CHECKPOINT.md");
    let files = 0;
    await fc.assert(
      fc.asyncProperty(anyProgress, async (progress) => {
        const file = new CheckpointFile(join(path, "..", `${files++}`, "CHECKPOINT.md"));
        await file.write(progress);
        const bytes = readFileSync(file.path);
        const read = await file.read();
        expect(read).toEqual(progress);
        await file.write(read as Progress);
        expect(readFileSync(file.path).equals(bytes)).toBe(true);
      }),
      { numRuns: runs(6, 40) },
    );
  });

  test("S5.5 S5.2 people's text between our sections changes nothing of what is read, and stays where it is no matter what is written", () => {
    fc.assert(
      fc.property(
        anyProgress,
        anyProgress,
        fc.array(peoplesText, { maxLength: 6 }),
        fc.constantFrom("\n", "\r\n"),
        fc.boolean(),
        (first, second, texts, end, mark) => {
          const text = (mark ? "\ufeff" : "") + withPeople(renderProgress(first), texts).replaceAll("\n", end);
          const file = parseFile(text, "f");
          expect(file.progress).toEqual(first);
          expect(renderInto(file, first, "f")).toBe(text);

          // Some phases stay, some go, some come.
          const kept = first.phases.filter((_, index) => index % 2 === 0);
          const next = {
            ...second,
            phases: [...kept, ...second.phases.filter(({ id }) => kept.every((phase) => phase.id !== id))],
          };
          const wanted = recounted(next);
          const written = renderInto(file, wanted, "f");
          const again = parseFile(written, "f");
          expect(again.progress).toEqual(wanted);
          expect(renderInto(again, wanted, "f")).toBe(written);
          expect(subsequence(outside(text), outside(written))).toBe(true);
          if (end === "\r\n") expect(written.replaceAll("\r\n", "")).not.toContain("\n");
        },
      ),
      { numRuns: runs(50, 300) },
    );
  });

  test("S5.2 no matter what people write anywhere, a write keeps it and is read back, or is refused with the line", () => {
    let kept = 0;
    fc.assert(
      fc.property(anyProgress, anyProgress, anyText, fc.nat(), (first, second, text, place) => {
        const lines = renderProgress(first).split("\n");
        lines.splice(place % lines.length, 0, text);
        const markdown = lines.join("\n");
        const written = orRefused(() => {
          const file = parseFile(markdown, "f");
          return renderInto(file, second, "f");
        });
        if (written === undefined) return;
        kept += 1;
        expect(parseProgress(written)).toEqual(second);
        expect(subsequence(outside(markdown), outside(written))).toBe(true);
      }),
      { numRuns: runs(50, 300) },
    );
    expect(kept).toBeGreaterThan(runs(5, 20));
  });
});

describe("S5.2 a text that is no progress file", () => {
  test("S5.2 any text at all is read or refused with a line of it", () => {
    fc.assert(
      fc.property(fc.array(anyText, { maxLength: 30 }), (texts) => {
        const markdown = texts.join("\n");
        orRefused(() => parseProgress(markdown), markdown);
      }),
      { numRuns: runs(83, 500) },
    );
  });

  test("S5.2 a mutated file is read as something valid, which then round-trips, or refused with a line of it", () => {
    let refused = 0;
    const cut = fc.record({ at: fc.nat(), take: fc.nat(30), put: anyText });
    fc.assert(
      fc.property(anyProgress, fc.array(cut, { minLength: 1, maxLength: 3 }), (progress, cuts) => {
        let markdown = renderProgress(progress);
        for (const { at, take, put } of cuts) {
          const from = at % (markdown.length + 1);
          markdown = markdown.slice(0, from) + put + markdown.slice(from + take);
        }
        const read = orRefused(() => parseProgress(markdown), markdown);
        if (read === undefined) refused += 1;
        else expect(parseProgress(renderProgress(read))).toEqual(read);
      }),
      { numRuns: runs(166, 1000) },
    );
    expect(refused).toBeGreaterThan(runs(20, 100));
  });

  test("S5.2 texts that make a parser go back and forth are read in no time to speak of", () => {
    const nasty = [">".repeat(50_000), "- ".repeat(20_000), "* a\n".repeat(20_000), "[".repeat(50_000), "`".repeat(50_001)];
    nasty.push("| a |\n| - |\n".repeat(5_000), "<!-- turns:phase ".repeat(5_000), `${"> ".repeat(200)}\n`.repeat(200));
    for (const text of nasty) expect(orRefused(() => parseProgress(text), text)).toBeUndefined();
  });

  test("S5.2 bytes that are no UTF-8 are refused with their line, and stay", async () => {
    const path = tempFile("CHECKPOINT.md");
    mkdirSync(join(path, ".."), { recursive: true });
    const bytes = Buffer.concat([Buffer.from("# Mine\n\ncaf"), Buffer.from([0xe9]), Buffer.from("\n")]);
    writeFileSync(path, bytes);
    const file = new CheckpointFile(path);
    await expect(file.read()).rejects.toMatchObject({ code: "CHECKPOINT_FILE_MALFORMED", data: { line: 3 } });
    expect(readFileSync(path).equals(bytes)).toBe(true);
  });
});

function recounted(progress: Progress): Progress {
  const totals = { input: 0, output: 0, cached: 0, reasoning: 0 };
  for (const { tokens } of progress.phases)
    for (const kind of Object.keys(totals) as (keyof typeof totals)[]) totals[kind] += tokens[kind];
  return { ...progress, totals };
}

/** Undefined if it was refused, which has to be by the one named error, with a line that the text has. */
function orRefused<T>(work: () => T, text?: string): T | undefined {
  try {
    return work();
  } catch (error) {
    if (!TurnsError.is(error, "CHECKPOINT_FILE_MALFORMED")) throw error;
    const line = error.data["line"] as number;
    expect(line).toBeGreaterThan(0);
    if (text !== undefined) expect(line).toBeLessThanOrEqual(text.split(/\r\n?|\n/).length);
    expect(error.message).toMatch(new RegExp(`^Line ${line} of `));
    return undefined;
  }
}

function subsequence(part: readonly string[], whole: readonly string[]): boolean {
  let at = 0;
  for (const line of whole) if (line === part[at]) at += 1;
  return at === part.length;
}
