import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import MarkdownIt from "markdown-it";
import { anyProgress, anyText } from "../../../__tests__/report/arb-progress";
import {
  checkedProgress,
  parseFile,
  parseProgress,
  type Progress,
  renderInto,
  renderProgress,
} from "../../../src/testing-internal";
import { answer } from "../answer";
import { mutatedBytes } from "../mutate";
import { nastyText } from "../nasty";
import type { Random } from "../random";
import type { Session } from "../target";

const MARKUP: readonly string[] = [
  ...[
    "<!-- turns:progress 1 -->",
    "<!-- turns:end -->",
    '<!-- turns:phase "a" -->',
    "<!--",
    "-->",
    "--!>",
    "<![CDATA[",
    "<?",
    "<!X",
  ],
  ...[
    "# Progress of x",
    "## name",
    "> note",
    "```",
    "~~~~",
    "    ",
    "\t",
    "| a | b |",
    "| --- | ---: |",
    "| **total** |",
    "|",
    "\\|",
  ],
  ...["&#124;", "&#0;", "&#99999;", "&#x41;", "&amp;", "\r", "\r\n", "\n\n", "\u2028", "\0", "- ", "1. ", "[a]: b", "===", "---"],
  ...[
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "![x](http://a/b)",
    "<a:b>",
    "<svg/onload=x>",
  ],
];

/**
 * CHECKPOINT.md: any bytes are a progress that its own rendering restores, or CHECKPOINT_FILE_MALFORMED.
 *
 * @param parse in the place of `parseProgress`, to see whether a wrong one is found
 */
export function open(random: Random, parse: typeof parseProgress = parseProgress): Session {
  const seed = random.below(2 ** 31);
  const all = fc.sample(anyProgress, { numRuns: 100, seed });
  const texts = fc.sample(anyText, { numRuns: 200, seed });
  const markdown = new MarkdownIt({ html: true });
  return {
    seeds: all.map((progress) => Buffer.from(renderProgress(progress))),
    mutate: (input, other, by) => {
      if (by.once(3)) return mutatedBytes(input, other, by);
      const lines = input.toString().split("\n");
      const others = other.toString().split("\n");
      const at = by.below(lines.length + 1);
      const put = by.of([by.of(MARKUP), by.of(texts), nastyText(by), by.of(others), by.of(lines)]);
      if (by.once(3)) lines.splice(at, by.below(3));
      else if (by.once(2)) lines.splice(at, 0, put);
      else lines[at % lines.length] = inserted(lines[at % lines.length] ?? "", put, by);
      return Buffer.from(lines.join("\n"));
    },
    feed: (input) => {
      const text = input.toString();
      let read: Progress | undefined;
      const words = answer(() => (read = parse(text)));
      if (read === undefined) return words;
      const progress = read;
      answer(
        () => renderProgress(progress),
        (rendered) => wrongRendering(rendered as string, progress, markdown, parse),
      );
      // Into people's own text: it may hide what is put in, which is refused.
      const next = checkedProgress({ ...all[text.length % all.length], threadId: progress.threadId });
      answer(
        () => renderInto(parseFile(text, "f"), next, "f"),
        (written) =>
          isDeepStrictEqual(parseProgress(written as string), next) ? undefined : "a file that says another progress",
      );
      return words;
    },
    close: () => undefined,
  };
}

function inserted(line: string, put: string, random: Random): string {
  const at = random.below(line.length + 1);
  return line.slice(0, at) + put + line.slice(at);
}

/** Notes are people's own Markdown; of all else nothing becomes markup when a page is made of it. */
function wrongRendering(
  rendered: string,
  progress: Progress,
  markdown: MarkdownIt,
  parse: typeof parseProgress,
): string | undefined {
  if (!isDeepStrictEqual(parse(rendered), progress)) return "a progress that its file does not restore";
  const bare = { ...progress, phases: progress.phases.map((phase) => ({ ...phase, notes: "" })) };
  const html = markdown.render(renderProgress(bare)).replace(/<!-- turns:[^>]*-->/g, "");
  const tag =
    /<(?!\/?(?:h[12]|table|thead|tbody|tr|td|th|strong)\b|h1>|td style="text-align:right">|th style="text-align:right">)[^>]{0,60}/.exec(
      html,
    );
  return tag === null ? undefined : `markup that a text has become: ${tag[0]}`;
}
