import eslint from "@eslint/js";
import { defineConfig, globalIgnores } from "eslint/config";
import tseslint from "typescript-eslint";

const nodeGlobals = { process: "readonly", console: "readonly", URL: "readonly", module: "writable", require: "readonly" };

export default defineConfig(
  globalIgnores(["dist/", "coverage/", ".tmp/", "node_modules/", "examples/nextjs/"]),
  eslint.configs.recommended,
  { linterOptions: { reportUnusedDisableDirectives: "error" } },

  {
    files: ["**/*.ts", "**/*.tsx"],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      eqeqeq: ["error", "always"],
      "no-else-return": "error",
      "object-shorthand": "error",
      "@typescript-eslint/consistent-type-exports": "error",
      "@typescript-eslint/consistent-type-imports": [
        "error",
        { fixStyle: "inline-type-imports", disallowTypeAnnotations: false },
      ],
      "@typescript-eslint/no-explicit-any": "error",
      "@typescript-eslint/no-floating-promises": "error",
      "@typescript-eslint/no-import-type-side-effects": "error",
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/no-non-null-assertion": "error",
      "@typescript-eslint/no-unused-vars": [
        "error",
        { argsIgnorePattern: "^_", varsIgnorePattern: "^_", ignoreRestSiblings: true },
      ],
      "@typescript-eslint/return-await": ["error", "in-try-catch"],
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      // LangGraph's contract asks for promises from methods that commit synchronously.
      "@typescript-eslint/require-await": "off",
    },
  },

  {
    // What ships twice, as ESM and as CommonJS, may lean on neither.
    files: ["src/**/*.ts"],
    rules: {
      "no-console": "error",
      "no-restricted-globals": ["error", "__dirname", "__filename", "require", "module"],
      "no-restricted-syntax": [
        "error",
        { selector: "MetaProperty[meta.name='import']", message: "import.meta is empty in the CommonJS build." },
        {
          selector: "ExportDefaultDeclaration",
          message: "Named exports only: a default export means two things to ESM and CommonJS.",
        },
        { selector: "TSEnumDeclaration", message: "Use a union of string literals." },
      ],
    },
  },
  // The page runs in a browser and is built apart: it has a tsconfig.json of its own.
  {
    files: ["src/viewer/page/**/*.{ts,tsx}"],
    rules: { "no-restricted-globals": "off", eqeqeq: ["error", "always", { null: "ignore" }] },
  },
  { files: ["src/cli/**/*.ts", "src/logger.ts"], rules: { "no-console": "off" } },
  // It has to find the program beside it, in either build, and says there how.
  { files: ["src/testing/child-program.ts"], rules: { "no-restricted-globals": "off", "no-restricted-syntax": "off" } },

  {
    // Tests, examples, benchmarks and tortures look at values from outside: parsed JSON, rows, errors.
    files: ["__tests__/**/*.ts", "examples/**/*.ts", "bench/**/*.ts", "torture/**/*.ts"],
    rules: {
      "@typescript-eslint/no-explicit-any": "off",
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-call": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-unsafe-return": "off",
      "@typescript-eslint/unbound-method": "off",
    },
  },

  {
    // Modules move; the names behind the door stay.
    files: ["__tests__/**/*.ts", "bench/**/*.ts", "torture/**/*.ts"],
    rules: {
      "no-restricted-imports": [
        "error",
        {
          patterns: [
            {
              regex:
                "^\\.{1,2}/(.*/)?src(/(?!((import/|maintenance/|postgres/|report/|testing/|transactions/)?index|testing-internal)$)|$)",
              message: "What isn't public is imported from src/testing-internal.ts.",
            },
          ],
        },
      ],
    },
  },

  { files: ["**/*.{js,mjs,cjs}"], languageOptions: { globals: nodeGlobals } },
  { files: ["**/*.cjs"], languageOptions: { sourceType: "commonjs" } },
);
