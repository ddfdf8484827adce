import type { NextConfig } from "next";

// The driver is a native module, and the graph's source is part of its fingerprint: neither may be bundled.
const config: NextConfig = {
  serverExternalPackages: ["langgraph-checkpoint-turns", "better-sqlite3", "@langchain/langgraph", "@langchain/core"],
};

export default config;
