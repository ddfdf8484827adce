/** One step from a value to a part of it. */
export type Segment = string | number | Place;

/** A step that is neither a property nor an index, such as the key of a map entry. */
export class Place {
  constructor(readonly text: string) {}
}

const IDENTIFIER = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;
const LONGEST_KEY = 60;
const HEAD = 32;
const TAIL = 8;

/** `messages[3].additional_kwargs.fn`. The empty text is the value itself. Very long paths are shortened in the middle. */
export function renderPath(segments: readonly (Segment | undefined)[]): string {
  const steps = segments.filter((segment) => segment !== undefined);
  if (steps.length <= HEAD + TAIL) return steps.map(renderSegment).join("").replace(/^\./, "");
  return `${renderPath(steps.slice(0, HEAD))}…${steps.slice(-TAIL).map(renderSegment).join("")}`;
}

function renderSegment(segment: Segment): string {
  if (typeof segment === "number") return `[${segment}]`;
  if (segment instanceof Place) return segment.text;
  if (segment.length > LONGEST_KEY) return `[${JSON.stringify(`${segment.slice(0, LONGEST_KEY)}…`)}]`;
  return IDENTIFIER.test(segment) ? `.${segment}` : `[${JSON.stringify(segment)}]`;
}
