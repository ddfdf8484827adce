import fc from "fast-check";
import { type Phase, type PhaseTokens, type Progress, type ResumeInfo, sumOf } from "../../src/testing-internal";

/** Pieces of which a Markdown file, or our own layout, could be mistaken. */
const PIECES = [
  ..."|`*_#>-+=~\\<&[](){}!:;\"'$@\t \n\r\0\u007f\u0085\u2028\u2029\ufeff\u00a0\ud83d\ude00",
  ...["\n\n", "\r\n", "  \n", "\n---\n", "---", "***", "```", "~~~\n", "````md\n", "<!--", "-->", "<!-- turns:end -->"],
  ...[
    "\n<!-- turns:end -->\n",
    '\n<!-- turns:phase "a" -->\n',
    "<!-- turns:progress 1 -->",
    "# Progress of x",
    "\n# h\n",
    "\n## h\n",
  ],
  ...[
    "> quote",
    "\n>>>> deep\n",
    ">".repeat(120),
    "- item\n",
    "1. one\n",
    "    code\n",
    "| a | b |\n| --- | --- |\n",
    "**total**",
  ],
  ...[
    "–",
    "yes",
    "no: ",
    "&#13;",
    "&#38;#13;",
    "&amp;",
    "&",
    "\\|",
    "\\",
    "\\\\|",
    "<div>\n",
    "</div>",
    "<script>",
    "<pre>",
    "[a]: b\n",
  ],
  ...[
    "😀",
    "👩‍👩‍👧",
    "ünï",
    "漢字",
    "e\u0301",
    "title: x\n",
    "phase",
    "resume",
    "**Failed:** ",
    "x",
    "some words",
    "_a_b_",
    "#",
    "$x$",
  ],
];

export const anyText: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }).map((pieces) => pieces.join("")) },
  { weight: 2, arbitrary: fc.string({ unit: "binary", maxLength: 40 }) },
  {
    weight: 1,
    arbitrary: fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 8 }).map((codes) => String.fromCharCode(...codes)),
  },
);

export const anyId = anyText.filter((text) => text !== "" && !text.includes("\0") && text.isWellFormed());

const count = fc.oneof(fc.nat(3000), fc.nat(2 ** 45));
export const anyTokens: fc.Arbitrary<PhaseTokens> = fc.record({ input: count, output: count, cached: count, reasoning: count });
const anyTime = fc.option(fc.date({ noInvalidDate: true }), { nil: null });

export const anyPhase: fc.Arbitrary<Phase> = fc.record({
  id: anyId,
  name: anyText,
  status: fc.constantFrom("pending", "in-progress", "completed", "failed", "skipped"),
  startedAt: anyTime,
  endedAt: anyTime,
  notes: anyText,
  tokens: anyTokens,
});

export const anyProgress: fc.Arbitrary<Progress> = fc
  .record({
    threadId: anyId,
    phases: fc.uniqueArray(anyPhase, { selector: (phase) => phase.id, maxLength: 5 }),
    picks: fc.tuple(fc.nat(), fc.nat()),
    nextStep: fc.option(anyText, { nil: null }),
    reason: fc.option(anyText, { nil: null }),
  })
  .map(({ threadId, phases, picks, nextStep, reason }) => {
    const pick = (index: number): string | null => phases[index % (phases.length + 1)]?.id ?? null;
    const resume: ResumeInfo = {
      lastPhase: pick(picks[0]),
      nextPhase: pick(picks[1]),
      nextStep,
      canResume: reason === null,
      reason,
    };
    return { threadId, phases, resume, totals: sumOf(phases) };
  });

/** What people write: whole blocks of Markdown, which leave nothing open behind them. */
export const peoplesText: fc.Arbitrary<string> = fc
  .array(
    fc.constantFrom(
      "A paragraph\nof two lines.",
      "> A quote of my own",
      "# My heading",
      "## Another\n\ntext",
      "Underlined\n==========",
      "<!-- a comment\nof mine -->",
      "```md\n<!-- turns:end -->\n# Progress of somebody\n```",
      "    <!-- turns:progress 1 -->",
      "- a list\n\n  > with a quote\n- [ ] to do",
      "| phase | status |\n| --- | --- |\n| mine | fine |",
      "<details>\n<summary>more</summary>\n\ntext\n\n</details>",
      "---",
      "[link]: https://example.org",
      "trailing spaces   \nand a tab\t",
      "weird: \u0000 \u2028 &#13; 😀",
    ),
    { minLength: 1, maxLength: 3 },
  )
  .map((blocks) => blocks.join("\n\n"));
