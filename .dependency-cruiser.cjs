const driver = "(^|/)node_modules/(@types/)?better-sqlite3/";
const factory = "^src/store/sqlite/index\\.ts$";
const mayBuildTheStore = "^src/(saver|turns/checkpoint-persister|import/import-official)\\.ts$";

/** Which room may know which: see "The rooms" in CONTRIBUTING.md. @type {import("dependency-cruiser").IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: "no-circular",
      severity: "error",
      comment: "No circles, not even of types.",
      from: {},
      to: { circular: true },
    },
    {
      name: "not-to-unresolvable",
      severity: "error",
      comment: "An import that resolves to nothing works on one machine at most.",
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: "src-is-self-contained",
      severity: "error",
      comment: "What ships never reaches into tests, examples, benchmarks or scripts.",
      from: { path: "^src/" },
      to: { path: "^(__tests__|examples|bench|scripts)/" },
    },
    {
      name: "src-imports-declared-dependencies-only",
      severity: "error",
      comment: "What ships imports dependencies and peer dependencies, never what only a developer has.",
      from: { path: "^src/" },
      to: {
        dependencyTypes: ["npm-dev", "npm-no-pkg", "npm-unknown"],
        dependencyTypesNot: ["npm", "npm-peer", "type-only"],
      },
    },
    {
      name: "driver-stays-in-its-store",
      severity: "error",
      comment: "better-sqlite3 is spoken inside src/store/<engine>/ only.",
      from: { path: "^src/", pathNot: ["^src/store/[^/]+/", "^src/turns/checkpoint-persister\\.ts$"] },
      to: { path: driver },
    },
    {
      name: "persister-knows-driver-types-only",
      severity: "error",
      comment: "The persister takes a database handle; it opens none.",
      from: { path: "^src/turns/checkpoint-persister\\.ts$" },
      to: { path: driver, dependencyTypesNot: ["type-only"] },
    },
    {
      name: "codec-knows-no-store",
      severity: "error",
      from: { path: "^src/codec/" },
      to: { path: "^src/store/" },
    },
    {
      name: "rooms-speak-to-the-store-interface",
      severity: "error",
      comment: "Outside src/store/ only src/store/store.ts is known, never an engine.",
      from: { path: "^src/", pathNot: ["^src/store/", mayBuildTheStore] },
      to: { path: "^src/store/[^/]+/" },
    },
    {
      name: "one-factory-builds-the-store",
      severity: "error",
      comment: "The saver and the persister may call the factory and see nothing behind it.",
      from: { path: mayBuildTheStore },
      to: { path: "^src/store/[^/]+/", pathNot: factory },
    },
    {
      name: "engines-do-not-know-each-other",
      severity: "error",
      from: { path: "^src/store/([^/]+)/" },
      to: { path: "^src/store/[^/]+/", pathNot: "^src/store/$1/" },
    },
    {
      name: "callbacks-belong-to-the-recorder",
      severity: "error",
      comment: "Only src/turns/recorder*.ts knows LangChain callbacks.",
      from: { path: "^src/", pathNot: "^src/turns/recorder[^/]*\\.ts$" },
      to: { path: "@langchain/core/(dist/)?callbacks" },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "require", "node", "default", "types"],
    },
  },
};
