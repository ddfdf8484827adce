/** What the order of pending writes depends on. */
export interface WritePlace {
  /** LangGraph's path of the task; '' for writes that are no task's. */
  taskPath: string;
  nodeTaskId: string;
  /** Negative for special channels. */
  idx: number;
}

/**
 * The order in which LangGraph applies the writes of a superstep, and in which a saver has to return them: by path, task id and
 * index. Texts are compared by code point, as databases and LangGraph for Python do: JavaScript's own `<` puts "🦜" before
 * "\uffff".
 *
 * `@langchain/langgraph-checkpoint` exports the same order from 1.2 on (`compareWritesSortKeys`). It can't be imported because
 * older versions are supported too; a test holds the two against each other.
 */
export function compareWrites(left: WritePlace, right: WritePlace): number {
  return (
    compareByCodePoint(left.taskPath, right.taskPath) ||
    compareByCodePoint(left.nodeTaskId, right.nodeTaskId) ||
    Math.sign(left.idx - right.idx)
  );
}

/** Both texts are well-formed: saves refuse lone surrogates. */
function compareByCodePoint(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let at = 0; at < length; at += 1) {
    const [one, other] = [left.charCodeAt(at), right.charCodeAt(at)];
    if (one !== other) return rank(one) < rank(other) ? -1 : 1;
  }
  return Math.sign(left.length - right.length);
}

/** Orders code units like the code points they stand for: surrogates stand for code points above all others. */
function rank(unit: number): number {
  return isSurrogate(unit) ? unit + 0x1_0000 : unit;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}
