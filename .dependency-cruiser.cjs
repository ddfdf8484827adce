const driver = "(^|/)node_modules/(@types/)?(better-sqlite3|pg)/";
const factory = "^src/store/(sqlite|postgres)/index\\.ts$";
const door = "^src/testing-internal\\.ts$";
const mayBuildTheStore = "^src/(saver|postgres/(index|saver|checkpoint-persister)|turns/checkpoint-persister)\\.ts$";
const importer = "^src/import/import-official\\.ts$";
const officialFile = "^src/store/[^/]+/official-(file|tables)\\.ts$";
const salvager = "^src/maintenance/salvage\\.ts$";
const salvaging = "^src/store/[^/]+/salvage/";

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
      comment: "What ships never reaches into tests, examples, benchmarks, tortures or scripts.",
      from: { path: "^src/" },
      to: { path: "^(__tests__|examples|bench|torture|scripts)/" },
    },
    {
      name: "src-imports-declared-dependencies-only",
      severity: "error",
      comment: "What ships imports dependencies and peer dependencies, never what only a developer has.",
      from: { path: "^src/", pathNot: "^src/(cli|viewer/page)/" },
      to: {
        dependencyTypes: ["npm-dev", "npm-no-pkg", "npm-unknown"],
        dependencyTypesNot: ["npm", "npm-peer", "type-only"],
      },
    },
    {
      name: "the-program-bundles-commander-alone",
      severity: "error",
      comment: "What the program `turns` imports beyond dependencies is built into it.",
      from: { path: "^src/cli/" },
      to: {
        path: "node_modules/",
        pathNot: "node_modules/commander/",
        dependencyTypes: ["npm-dev", "npm-no-pkg", "npm-unknown"],
        dependencyTypesNot: ["npm", "npm-peer", "type-only"],
      },
    },
    {
      name: "the-page-is-built-apart",
      severity: "error",
      comment:
        "The page of `turns web` runs in a browser: of the rest it knows addresses, the types of the answers, and two libraries.",
      from: { path: "^src/viewer/page/" },
      to: { path: ".", pathNot: "^src/viewer/(page/|(addresses|api)\\.ts$)|node_modules/(preact|@dagrejs/dagre)/" },
    },
    {
      name: "nobody-knows-the-page",
      severity: "error",
      from: { path: "^src/", pathNot: "^src/viewer/page/" },
      to: { path: "^src/viewer/page/" },
    },
    {
      name: "nobody-knows-the-program",
      severity: "error",
      comment: "src/cli/ prints what src/inspection/ finds; nothing else knows it.",
      from: { path: "^src/", pathNot: ["^src/cli/", door] },
      to: { path: "^src/cli/" },
    },
    {
      name: "only-doors-know-inspection",
      severity: "error",
      comment: "Answers for people: the command line and the viewer ask them, and importing the root doesn't load them.",
      from: { path: "^src/", pathNot: ["^src/(inspection|cli|viewer)/", door] },
      to: { path: "^src/inspection/" },
    },
    {
      name: "inspection-asks-the-store-interface",
      severity: "error",
      comment: "Its queries are operations of the store.",
      from: { path: "^src/inspection/" },
      to: { path: "^src/store/ops/|^src/store/(sqlite|postgres)/" },
    },
    {
      name: "driver-stays-in-its-store",
      severity: "error",
      comment: "better-sqlite3 and pg are spoken inside src/store/<engine>/ only.",
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
      name: "codec-knows-errors-only",
      severity: "error",
      comment: "Values and bytes: no other room.",
      from: { path: "^src/codec/" },
      to: { path: "^src/", pathNot: "^src/(codec/|errors\\.ts$)" },
    },
    {
      name: "guards-know-no-store",
      severity: "error",
      comment:
        "Fingerprints and gates look at graphs and at what nodes return; who keeps that is not their affair. Nor are runs.",
      from: { path: "^src/guards/" },
      to: { path: "^src/(store|turns|effects|rewind|runner|report|values)/|^src/(assembly|saver|graph-runner)\\.ts$" },
    },
    {
      name: "report-knows-no-store",
      severity: "error",
      comment: "CHECKPOINT.md is made of what the saver tells everyone; of the store it may know types.",
      from: { path: "^src/report/" },
      to: { path: "^src/store/", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "runner-speaks-to-the-saver",
      severity: "error",
      comment: "What the runner decides it decides on what the saver tells everyone; of the store it may know types.",
      from: { path: "^src/(runner/|graph-runner\\.ts$)" },
      to: { path: "^src/store/", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "effects-know-no-rewind",
      severity: "error",
      comment: "A rewind knows effects; the journal knows neither rewinds nor gates nor runners.",
      from: { path: "^src/effects/" },
      to: { path: "^src/(rewind|guards|runner|report|retention|integrity)/|^src/(assembly|saver|graph-runner)\\.ts$" },
    },
    {
      name: "nobody-below-knows-the-runner",
      severity: "error",
      from: { path: "^src/", pathNot: "^src/(runner/|testing/|inspection/|report/|cli/|viewer/|(graph-runner|index)\\.ts$)" },
      comment:
        "Types may be named: /maintenance exports those of recovery. What tells people a thread's state has it from the runner's rules.",
      to: { path: "^src/(runner/|graph-runner\\.ts$)", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "rewind-and-integrity-know-no-saver",
      severity: "error",
      comment: "They are given a store and what else they need; the saver calls them.",
      from: { path: "^src/(rewind|integrity|maintenance|retention|values|sealing|turns|saving)/" },
      to: { path: "^src/(assembly|saver|graph-runner)\\.ts$", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "nobody-knows-testing",
      severity: "error",
      comment: "src/testing/ is a subpath of its own, and nothing that runs in production carries it.",
      from: { path: "^src/", pathNot: ["^src/testing/", door] },
      to: { path: "^src/testing/" },
    },
    {
      name: "nobody-knows-the-door",
      severity: "error",
      comment: "src/testing-internal.ts opens what isn't public to the tests; nothing that ships goes through it.",
      from: { path: "^src/" },
      to: { path: door },
    },
    {
      name: "opentelemetry-belongs-to-tracing",
      severity: "error",
      comment: "Only src/tracing.ts knows OpenTelemetry, which may not be there; and it knows no room.",
      from: { path: "^src/", pathNot: "^src/tracing\\.ts$" },
      to: { path: "@opentelemetry/" },
    },
    {
      name: "tracing-knows-errors-only",
      severity: "error",
      from: { path: "^src/tracing\\.ts$" },
      to: { path: "^src/", pathNot: "^src/errors\\.ts$" },
    },
    {
      name: "rooms-speak-to-the-store-interface",
      severity: "error",
      comment: "Outside src/store/ only src/store/store.ts is known, never an engine.",
      from: { path: "^src/", pathNot: ["^src/store/", mayBuildTheStore, importer, salvager, door] },
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
      name: "import-reads-the-official-file",
      severity: "error",
      comment: "Of an engine the import knows how to open an official file, which nobody else does.",
      from: { path: importer },
      to: { path: "^src/store/[^/]+/", pathNot: officialFile, dependencyTypesNot: ["type-only"] },
    },
    {
      name: "maintenance-salvages",
      severity: "error",
      comment: "Of an engine /maintenance knows its salvage, which nobody else does.",
      from: { path: salvager },
      to: { path: "^src/store/[^/]+/", pathNot: "^src/store/[^/]+/salvage/index\\.ts$" },
    },
    {
      name: "official-file-belongs-to-import",
      severity: "error",
      from: { path: "^src/", pathNot: importer },
      to: { path: officialFile },
    },
    {
      name: "salvage-belongs-to-maintenance",
      severity: "error",
      from: { path: "^src/", pathNot: [salvager, salvaging] },
      to: { path: salvaging },
    },
    {
      name: "nobody-knows-import",
      severity: "error",
      comment: "src/import/ is an entry of its own: it knows the core, and importing the root doesn't load it.",
      from: { path: "^src/", pathNot: "^src/(import|cli)/" },
      to: { path: "^src/import/" },
    },
    {
      name: "nobody-knows-maintenance",
      severity: "error",
      comment: "src/maintenance/ is an entry of its own: it knows the core, and importing the root doesn't load it.",
      from: { path: "^src/", pathNot: "^src/(maintenance|cli)/" },
      to: { path: "^src/maintenance/" },
    },
    {
      name: "nobody-knows-transactions",
      severity: "error",
      comment: "src/transactions/ is an entry of its own: it knows what an adapter is, and no database library.",
      from: { path: "^src/", pathNot: "^src/transactions/" },
      to: { path: "^src/transactions/" },
    },
    {
      name: "transactions-know-their-interface",
      severity: "error",
      from: { path: "^src/transactions/" },
      to: {
        path: ".",
        pathNot: "^src/(transactions/|effects/(transactional|types)\\.ts$|errors\\.ts$|options\\.ts$)|node_modules/zod/",
      },
    },
    {
      name: "verification-is-loaded-when-asked-for",
      severity: "error",
      comment: 'Verifying and rotating keys are rare: the core loads their code by `await import("…")`.',
      from: { path: "^src/", pathNot: ["^src/maintenance/", salvaging, "^src/store/[^/]+/(verify[^/]*|rotate[^/]*)\\.ts$"] },
      to: {
        path: "^src/(integrity/verify|store/[^/]+/(verify|rotate)[^/]*)\\.ts$",
        dynamic: false,
        dependencyTypesNot: ["type-only"],
      },
    },
    {
      name: "report-is-loaded-when-asked-for",
      severity: "error",
      comment: 'CHECKPOINT.md takes a Markdown parser: the core loads it by `await import("…")`.',
      from: { path: "^src/", pathNot: ["^src/report/", door] },
      to: { path: "^src/report/", dynamic: false, dependencyTypesNot: ["type-only"] },
    },
    {
      name: "operations-know-no-engine",
      severity: "error",
      comment:
        "What src/store/ and src/store/ops/ say is said once for all engines: they yield statements to the interface in src/store/engine.ts.",
      from: { path: "^src/store/(ops/|[^/]+$)" },
      to: { path: "^src/store/[^/]+/", pathNot: "^src/store/ops/" },
    },
    {
      name: "engines-do-not-know-each-other",
      severity: "error",
      from: { path: "^src/store/([^/]+)/", pathNot: "^src/store/ops/" },
      to: { path: "^src/store/[^/]+/", pathNot: ["^src/store/$1/", "^src/store/ops/"] },
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
