import type { Random } from "./random";
import type { Session, Target } from "./target";

type Opened = Session | Promise<Session>;

const target = (about: string, load: () => Promise<{ open: (random: Random) => Opened }>): Target => ({
  about,
  open: async (random) => (await load()).open(random),
});

export const TARGETS: Record<string, Target> = {
  decoder: target("texts of the codec", () => import("./targets/decoder")),
  parts: target("lists, chunks and their references", () => import("./targets/parts")),
  official: target("texts of LangGraph's own serializer", () => import("./targets/official")),
  sealed: target("encrypted rows and the wrapped secret", () => import("./targets/sealed")),
  "checkpoint-file": target("CHECKPOINT.md", () => import("./targets/checkpoint-file")),
  rows: target("any column of any table, with checksums computed again", () => import("./targets/rows")),
  import: target("files of the official saver", () => import("./targets/import")),
};
