import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { Contender } from "./contenders";

type PostgresSaver = BaseCheckpointSaver & { setup(): Promise<void>; end(): Promise<void> };

// Not a dependency of this package: if you have installed it, and run a server, you can measure it too.
const PACKAGE = "@langchain/langgraph-checkpoint-postgres";

/** The official PostgresSaver, or the reason why it does not take part. */
export async function postgresContender(): Promise<Contender | string> {
  const url = process.env["BENCH_POSTGRES_URL"];
  if (url === undefined || url === "") return "official PostgresSaver: BENCH_POSTGRES_URL is not set";
  const loaded = await import(PACKAGE).then(
    (module: any) => module.PostgresSaver as { fromConnString(url: string): PostgresSaver },
    () => undefined,
  );
  if (loaded === undefined) return `official PostgresSaver: ${PACKAGE} is not installed`;
  return {
    id: "postgres",
    name: "official PostgresSaver",
    role: "postgres",
    records: false,
    hasFile: false,
    reopens: true,
    open: async () => {
      const saver = loaded.fromConnString(url);
      await saver.setup();
      return saver;
    },
    close: (saver) => (saver as PostgresSaver).end(),
  };
}
