import type { Pointer } from "../store";
import { SNAPSHOTS } from "../tables";
import { mapped, type Program } from "../program";
import { firstSeq } from "../spans";
import { isBusy, sqliteCode } from "./failures";
import { type RawSnapshot, toHead } from "../ops/heads";
import type { Owner, VerifyContext, Where } from "./verify-context";
import { ListDigests } from "./verify-digests";
import { type Phase, walkSeqs } from "./verify-walk";
import { checkVersions } from "./verify-versions";

type ListPointer = Extract<Pointer, { kind: "list" }>;

const TABLE = SNAPSHOTS.name;
const STORED = `SELECT 1 FROM ${TABLE} WHERE thread = ? AND checkpoint_ns = ? AND checkpoint_id = ?`;
const ELSEWHERE = `SELECT seq FROM ${TABLE} WHERE thread = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?3 AND position <> ?4
  UNION ALL SELECT seq FROM ${TABLE} WHERE thread = ?1 AND checkpoint_ns = ?2 AND position = ?4 AND checkpoint_id <> ?3 LIMIT 1`;

/** By seq, which is thread by thread, so each digest of a list continues from the one before. */
export function snapshots(only: number | undefined): Phase[] {
  const digests = new ListDigests();
  return walkSeqs<RawSnapshot>(only, SNAPSHOTS, { limit: 8, check: (ctx, row) => checkSnapshot(ctx, row, digests) });
}

export function whereOf(row: { seq: number; checkpoint_ns: string; checkpoint_id: string }): Record<string, string | number> {
  return { seq: row.seq, checkpointNs: row.checkpoint_ns, checkpointId: row.checkpoint_id };
}

function* checkSnapshot(ctx: VerifyContext, row: RawSnapshot, digests: ListDigests): Program<boolean> {
  const where = whereOf(row);
  const known = yield* ctx.owner(row.thread);
  const lists = known === undefined ? [] : listsIn(ctx, known, row);
  const outcomes = yield* mapped(lists, (pointer) => outcomeOf(ctx, known as Owner, pointer, digests));
  if (outcomes.includes(undefined)) return true;
  const owner = yield* ctx.entered(row, where);
  if (owner === undefined) return false;
  const head = ctx.attempt(owner.threadId, where, () => toHead(ctx.sql, owner.threadId, row));
  yield* checkVersions(ctx, owner, SNAPSHOTS, row, where);
  yield* checkParent(ctx, owner, row, where);
  yield* checkPosition(ctx, owner, row, where);
  if (head === undefined) return false;
  for (const { pointer } of head.channels.values()) {
    if (pointer?.kind === "inline") yield* ctx.refersTo(owner, where, pointer.text);
    else if (pointer?.kind === "whole") yield* ctx.refersToChunk(owner, where, pointer.address);
  }
  lists.forEach((pointer, index) => {
    const found = outcomes[index] as string;
    if (found === "") return;
    const at = { ...where, list: pointer.list, length: pointer.length };
    ctx.problem("checksum", owner.threadId, at, `${pointer.length} elements with digest ${pointer.digest.slice(0, 12)}…`, found);
  });
  return false;
}

/** Without a word about what does not verify: that is told once, when the row's lists are through. */
function listsIn(ctx: VerifyContext, owner: Owner, row: RawSnapshot): ListPointer[] {
  try {
    const pointers = [...toHead(ctx.sql, owner.threadId, row).channels.values()].map(({ pointer }) => pointer);
    return pointers.filter((pointer) => pointer?.kind === "list");
  } catch {
    return [];
  }
}

/** @returns what is wrong, nothing as an empty text, undefined if the list takes longer */
function* outcomeOf(ctx: VerifyContext, owner: Owner, pointer: ListPointer, digests: ListDigests): Program<string | undefined> {
  try {
    const outcome = yield* digests.outcome(ctx, owner, pointer);
    if (outcome === undefined) return undefined;
    if ("broken" in outcome) return outcome.broken;
    return outcome.digest === pointer.digest ? "" : `elements with digest ${outcome.digest.slice(0, 12)}…`;
  } catch (error) {
    if (isBusy(error)) throw error;
    const code = sqliteCode(error);
    return `elements that do not open (${code !== "" ? code : error instanceof Error ? error.name : "Error"})`;
  }
}

/** All versions of a checkpoint have one position, no other checkpoint has it, and it's the seq of the first of them. */
function* checkPosition(ctx: VerifyContext, owner: Owner, row: RawSnapshot, where: Where): Program<void> {
  const { thread, checkpoint_ns: ns, checkpoint_id: id, position } = row;
  const other = yield* ctx.sql.get<{ seq: number }>(ELSEWHERE, thread, ns, id, position);
  const isPossible = position > firstSeq(thread) && position <= row.seq;
  if (other === undefined && isPossible) return;
  const found = other === undefined ? `${position}, which is none` : `${position}, and another one with seq ${other.seq}`;
  ctx.problem("sequence", owner.threadId, where, "the position at which the checkpoint was first saved", found);
}

function* checkParent(ctx: VerifyContext, owner: Owner, row: RawSnapshot, where: Where): Program<void> {
  const parent = row.parent_checkpoint_id;
  if (parent === null || (yield* ctx.sql.get(STORED, row.thread, row.checkpoint_ns, parent)) !== undefined) return;
  const tell = owner.row.prunedSeq > 0 ? "remark" : "problem";
  ctx[tell]("reference", owner.threadId, where, `checkpoint ${parent}, its parent`, "none of that id");
}

/** Whether the checkpoint is stored, in any version. */
export function* isStored(ctx: VerifyContext, thread: number, ns: string, checkpointId: string): Program<boolean> {
  return (yield* ctx.sql.get(STORED, thread, ns, checkpointId)) !== undefined;
}
