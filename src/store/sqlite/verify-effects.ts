import { EFFECTS, GRAPHS, type RawOf } from "../tables";
import { type RawEffect, toEffect } from "../ops/effect-rows";
import type { Program } from "../program";
import type { VerifyContext } from "./verify-context";
import { type Phase, walkSeqs } from "./verify-walk";

/** An effect may outlive its turn: what happened outside stays true whatever is rewound here. */
export function effects(only: number | undefined): Phase[] {
  return walkSeqs<RawEffect>(only, EFFECTS, { limit: 20, check: checkEffect });
}

function* checkEffect(ctx: VerifyContext, row: RawEffect): Program<void> {
  const where = { seq: row.seq, id: row.id };
  const owner = yield* ctx.entered(row, where);
  if (owner === undefined) return;
  const effect = ctx.attempt(owner.threadId, where, () => toEffect(ctx.sql, owner.threadId, row));
  if (effect === undefined) return;
  for (const text of [effect.input, effect.outcome]) if (text !== undefined) yield* ctx.refersTo(owner, where, text);
  const { epoch } = owner.row;
  if (effect.epoch <= epoch) return;
  ctx.problem("sequence", owner.threadId, where, `an epoch up to the thread's, ${epoch}`, String(effect.epoch));
}

/** Whether a document is the one that was stored under the digest. */
export type IsGraph = (digest: string, document: string) => boolean;

export function graphs(only: number | undefined, isGraph: IsGraph): Phase[] {
  return walkSeqs<RawOf<typeof GRAPHS>>(only, GRAPHS, {
    limit: 20,
    *check(ctx, row) {
      const where = { seq: row.seq };
      const owner = yield* ctx.entered(row, where);
      if (isGraph(row.digest, row.document)) return;
      ctx.problem("checksum", owner?.threadId, where, `the document of digest ${row.digest.slice(0, 12)}…`, "another text");
    },
  });
}
