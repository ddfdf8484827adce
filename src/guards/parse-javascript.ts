/**
 * A node of the syntax tree, named and built as in ESTree (`{ type: "BinaryExpression", operator, left, right }`), without
 * positions.
 */
export interface Syntax {
  type: string;
  [field: string]: unknown;
}

/**
 * Parses what `Function.prototype.toString` returns: a function, an arrow function, a class or a method. The engine has already
 * accepted the text, so nothing is validated. Unknown syntax (decorators, `using`, JSX) is refused rather than guessed.
 *
 * @returns a function or class expression; for a method, its `MethodDefinition`
 * @throws {SyntaxError}
 */
export function parseFunction(source: string): Syntax {
  try {
    return new Parser(source).wholeExpression();
  } catch {
    return new Parser(source).wholeMember();
  }
}

/** The statements of a script. @throws {SyntaxError} */
export function parseScript(source: string): Syntax[] {
  return new Parser(source).wholeScript();
}

interface Token {
  kind: "name" | "private" | "punctuator" | "literal" | "end";
  text: string;
  start: number;
  end: number;
  /** Whether there is a line break between the previous token and this one. */
  newline: boolean;
  /** For a literal. */
  node?: Syntax;
}

const BLANK = /(?:[\s\uFEFF]|\/\/[^\n\r\u2028\u2029]*|\/\*[^]*?\*\/)*/y;
const NAME = /#?[A-Za-z$_][\w$]*/y;
/** The engine needs milliseconds to compile it, so only sources that need it do. */
const UNICODE_NAME = /#?[\p{ID_Start}$_][\p{ID_Continue}$\u200C\u200D]*/uy;
const NUMBER = /(?:0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:\d[\d_]*)?\.?\d[\d_]*\.?(?:[eE][+-]?\d[\d_]*)?)n?/y;
const STRING = /"(?:[^"\\\n\r]|\\(?:\r\n|[^]))*"|'(?:[^'\\\n\r]|\\(?:\r\n|[^]))*'/y;
const REGEX = /\/((?:[^\\/[\n\r]|\\[^\n\r]|\[(?:[^\]\\\n\r]|\\[^\n\r])*\])+)\/([a-z]*)/y;
const PUNCTUATOR =
  />>>=|\.\.\.|===|!==|\*\*=|<<=|>>=|>>>|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?!\d)|\+\+|--|\+=|-=|\*=|\/=|%=|&=|\|=|\^=|<<|>>|\*\*|[{}()[\];,<>+\-*/%&|^!~?:=.@]/y;

const BINARY: Readonly<Record<string, number>> = {
  ...{
    "??": 1,
    "||": 2,
    "&&": 3,
    "|": 4,
    "^": 5,
    "&": 6,
    "==": 7,
    "!=": 7,
    "===": 7,
    "!==": 7,
    "<": 8,
    ">": 8,
    "<=": 8,
    ">=": 8,
  },
  ...{ in: 8, instanceof: 8, "<<": 9, ">>": 9, ">>>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "%": 11, "**": 12 },
};
const ASSIGNMENT = new Set([
  "=",
  "+=",
  "-=",
  "*=",
  "/=",
  "%=",
  "**=",
  "<<=",
  ">>=",
  ">>>=",
  "&=",
  "|=",
  "^=",
  "&&=",
  "||=",
  "??=",
]);
const UNARY = new Set(["!", "~", "+", "-", "typeof", "void", "delete"]);
/** Names that no expression can begin with, or that mean something else there. */
const RESERVED = new Set(
  (
    "break case catch const continue debugger default do else enum export extends finally for if in instanceof return switch throw " +
    "try var while with"
  ).split(" "),
);

/** Whether `await` and `yield` are operators here. */
interface Within {
  async: boolean;
  generator: boolean;
}

class Parser {
  #token: Token = { kind: "end", text: "", start: 0, end: 0, newline: false };
  #within: Within = { async: false, generator: false };
  /** `in` terminates the expression: the head of a `for`. */
  #noIn = false;

  constructor(private readonly text: string) {
    this.#next();
  }

  wholeExpression(): Syntax {
    const node = this.#assignment();
    return this.#token.kind === "end" ? node : this.#unexpected();
  }

  wholeMember(): Syntax {
    const node = this.#member(true);
    return this.#token.kind === "end" ? node : this.#unexpected();
  }

  wholeScript(): Syntax[] {
    const body: Syntax[] = [];
    while (this.#token.kind !== "end") body.push(this.#statement());
    return body;
  }

  // Tokens

  #unexpected(): never {
    throw new SyntaxError(`unexpected ${JSON.stringify(this.#token.text)} at ${this.#token.start}`);
  }

  #match(pattern: RegExp, at: number): RegExpExecArray | null {
    pattern.lastIndex = at;
    return pattern.exec(this.text);
  }

  #next(): Token {
    const last = this.#token;
    this.#readAt(last.end);
    return last;
  }

  #readAt(from: number): void {
    const blank = this.#match(BLANK, from)?.[0] ?? "";
    const start = from + blank.length;
    this.#token = { ...this.#tokenAt(start), start, newline: /[\n\r\u2028\u2029]/.test(blank) };
  }

  #tokenAt(start: number): Omit<Token, "start" | "newline"> {
    if (start >= this.text.length) return { kind: "end", text: "", end: start };
    const ascii = this.#match(NAME, start)?.[0];
    const behind = start + (ascii?.length ?? (this.text[start] === "#" ? 1 : 0));
    const name = behind < this.text.length && this.text.charCodeAt(behind) > 127 ? this.#match(UNICODE_NAME, start)?.[0] : ascii;
    if (name !== undefined) return { kind: name.startsWith("#") ? "private" : "name", text: name, end: start + name.length };
    const first = this.text[start] as string;
    if (/\d/.test(first) || (first === "." && /\d/.test(this.text[start + 1] ?? ""))) return this.#number(start);
    if (first === '"' || first === "'") {
      const text = this.#match(STRING, start)?.[0];
      if (text === undefined) throw new SyntaxError(`a string without an end at ${start}`);
      return { kind: "literal", text, end: start + text.length, node: { type: "Literal", value: cooked(text.slice(1, -1)) } };
    }
    if (first === "`") return { kind: "punctuator", text: "`", end: start + 1 };
    const text = this.#match(PUNCTUATOR, start)?.[0];
    if (text === undefined) throw new SyntaxError(`unknown character at ${start}`);
    return { kind: "punctuator", text, end: start + text.length };
  }

  #number(start: number): Omit<Token, "start" | "newline"> {
    const text = this.#match(NUMBER, start)?.[0] ?? "";
    const digits = text.replaceAll("_", "");
    if (text === "" || /^0\d/.test(text)) throw new SyntaxError(`unknown number at ${start}`);
    const value = digits.endsWith("n") ? BigInt(digits.slice(0, -1)) : Number(digits);
    return { kind: "literal", text, end: start + text.length, node: { type: "Literal", value } };
  }

  #is(text: string): boolean {
    return this.#token.text === text && (this.#token.kind === "punctuator" || this.#token.kind === "name");
  }

  #eat(text: string): boolean {
    if (!this.#is(text)) return false;
    this.#next();
    return true;
  }

  #expect(text: string): void {
    if (!this.#eat(text)) this.#unexpected();
  }

  #semicolon(): void {
    if (this.#eat(";") || this.#is("}") || this.#token.kind === "end" || this.#token.newline) return;
    this.#unexpected();
  }

  /** Returns what `parse` returns. If it fails, restores the position and returns undefined. */
  #tried<T>(parse: () => T): T | undefined {
    const [token, within, noIn] = [this.#token, this.#within, this.#noIn];
    try {
      return parse();
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      [this.#token, this.#within, this.#noIn] = [token, within, noIn];
      return undefined;
    }
  }

  #ahead(): Token {
    const token = this.#token;
    this.#next();
    const ahead = this.#token;
    this.#token = token;
    return ahead;
  }

  // Statements

  #statement(): Syntax {
    const { kind, text } = this.#token;
    if (kind === "punctuator" && text === "{") return this.#block();
    if (kind === "punctuator" && text === ";") return (this.#next(), { type: "EmptyStatement" });
    if (kind === "name") {
      const parse = this.#statements[text];
      const ahead =
        text === "let" || text === "async" || text === "class" || text === "function" || parse ? this.#ahead() : undefined;
      if (parse !== undefined) return parse();
      if (text === "let" && (ahead?.kind === "name" || ahead?.text === "[" || ahead?.text === "{"))
        return this.#declaration(true);
      if (text === "function" || (text === "async" && ahead?.text === "function" && !ahead.newline)) return this.#function(true);
      if (text === "class") return this.#class("ClassDeclaration");
    }
    const expression = this.#expression();
    if (expression.type === "Identifier" && this.#eat(":"))
      return { type: "LabeledStatement", label: expression, body: this.#statement() };
    this.#semicolon();
    return { type: "ExpressionStatement", expression };
  }

  readonly #statements: Readonly<Record<string, (() => Syntax) | undefined>> = Object.assign(
    Object.create(null) as Record<string, () => Syntax>,
    {
      var: () => this.#declaration(true),
      const: () => this.#declaration(true),
      if: () => {
        this.#next();
        const test = this.#parenthesised();
        const consequent = this.#statement();
        return { type: "IfStatement", test, consequent, alternate: this.#eat("else") ? this.#statement() : null };
      },
      for: () => this.#for(),
      while: () => (this.#next(), { type: "WhileStatement", test: this.#parenthesised(), body: this.#statement() }),
      do: () => {
        this.#next();
        const body = this.#statement();
        this.#expect("while");
        const test = this.#parenthesised();
        this.#eat(";");
        return { type: "DoWhileStatement", body, test };
      },
      return: () => {
        this.#next();
        const argument = this.#endsHere() ? null : this.#expression();
        this.#semicolon();
        return { type: "ReturnStatement", argument };
      },
      throw: () => {
        this.#next();
        const argument = this.#expression();
        this.#semicolon();
        return { type: "ThrowStatement", argument };
      },
      break: () => this.#jump("BreakStatement"),
      continue: () => this.#jump("ContinueStatement"),
      debugger: () => (this.#next(), this.#semicolon(), { type: "DebuggerStatement" }),
      try: () => {
        this.#next();
        const block = this.#block();
        let handler: Syntax | null = null;
        if (this.#eat("catch")) {
          const param = this.#eat("(") ? this.#binding() : null;
          if (param !== null) this.#expect(")");
          handler = { type: "CatchClause", param, body: this.#block() };
        }
        return { type: "TryStatement", block, handler, finalizer: this.#eat("finally") ? this.#block() : null };
      },
      switch: () => {
        this.#next();
        const discriminant = this.#parenthesised();
        const cases: Syntax[] = [];
        this.#expect("{");
        while (!this.#eat("}")) {
          const test = this.#eat("default") ? null : (this.#expect("case"), this.#expression());
          this.#expect(":");
          const consequent: Syntax[] = [];
          while (!this.#is("case") && !this.#is("default") && !this.#is("}")) consequent.push(this.#statement());
          cases.push({ type: "SwitchCase", test, consequent });
        }
        return { type: "SwitchStatement", discriminant, cases };
      },
    },
  );

  #endsHere(): boolean {
    return this.#is(";") || this.#is("}") || this.#token.kind === "end" || this.#token.newline;
  }

  #jump(type: string): Syntax {
    this.#next();
    const label = this.#endsHere() ? null : this.#identifier();
    this.#semicolon();
    return { type, label };
  }

  #block(): Syntax {
    return { type: "BlockStatement", body: this.#statementsInBraces() };
  }

  #statementsInBraces(): Syntax[] {
    this.#expect("{");
    const body: Syntax[] = [];
    while (!this.#eat("}")) body.push(this.#statement());
    return body;
  }

  #parenthesised(): Syntax {
    this.#expect("(");
    const expression = this.#allowingIn(() => this.#expression());
    this.#expect(")");
    return expression;
  }

  #allowingIn<T>(parse: () => T): T {
    const noIn = this.#noIn;
    this.#noIn = false;
    const parsed = parse();
    this.#noIn = noIn;
    return parsed;
  }

  /** @param isStatement otherwise it is in the head of a `for`, without initialiser or semicolon if a loop over values follows */
  #declaration(isStatement: boolean): Syntax {
    const kind = this.#next().text;
    const declarations: Syntax[] = [];
    do {
      const id = this.#binding();
      declarations.push({ type: "VariableDeclarator", id, init: this.#eat("=") ? this.#assignment() : null });
    } while (this.#eat(","));
    if (isStatement) this.#semicolon();
    return { type: "VariableDeclaration", kind, declarations };
  }

  #for(): Syntax {
    this.#next();
    const isAwait = this.#eat("await");
    this.#expect("(");
    let init: Syntax | null = null;
    if (!this.#is(";")) {
      this.#noIn = true;
      const ahead = this.#is("let") ? this.#ahead() : undefined;
      const isDeclaration =
        this.#is("var") || this.#is("const") || ahead?.kind === "name" || ahead?.text === "[" || ahead?.text === "{";
      init = isDeclaration ? this.#declaration(false) : this.#expression();
      this.#noIn = false;
    }
    if (init !== null && (this.#is("of") || this.#is("in"))) {
      const isOf = this.#next().text === "of";
      const left = init.type === "VariableDeclaration" ? init : patternOf(init);
      const right = isOf ? this.#assignment() : this.#expression();
      this.#expect(")");
      const body = this.#statement();
      return isOf ? { type: "ForOfStatement", await: isAwait, left, right, body } : { type: "ForInStatement", left, right, body };
    }
    this.#expect(";");
    const test = this.#is(";") ? null : this.#expression();
    this.#expect(";");
    const update = this.#is(")") ? null : this.#expression();
    this.#expect(")");
    return { type: "ForStatement", init, test, update, body: this.#statement() };
  }

  // Functions and classes

  #function(isDeclaration: boolean): Syntax {
    const isAsync = this.#eat("async");
    this.#expect("function");
    const generator = this.#eat("*");
    const id = this.#is("(") ? null : this.#identifier();
    const type = isDeclaration ? "FunctionDeclaration" : "FunctionExpression";
    return { type, id, ...this.#functionRest({ async: isAsync, generator }) };
  }

  /** Parameters and body. */
  #functionRest(within: Within): Omit<Syntax, "type"> {
    const around = this.#enter(within);
    this.#expect("(");
    const params = this.#parameters();
    const body = this.#block();
    this.#within = around;
    return { expression: false, generator: within.generator, async: within.async, params, body };
  }

  #enter(within: Within): Within {
    const around = this.#within;
    this.#within = within;
    return around;
  }

  /** Up to and including the closing parenthesis. */
  #parameters(): Syntax[] {
    const params: Syntax[] = [];
    while (!this.#eat(")")) {
      params.push(this.#eat("...") ? { type: "RestElement", argument: this.#binding() } : this.#bindingWithDefault());
      if (!this.#is(")")) this.#expect(",");
    }
    return params;
  }

  #arrow(isAsync: boolean, params: Syntax[]): Syntax {
    if (this.#token.newline) this.#unexpected();
    this.#expect("=>");
    const around = this.#enter({ async: isAsync, generator: false });
    const expression = !this.#is("{");
    const body = expression ? this.#assignment() : this.#allowingIn(() => this.#block());
    this.#within = around;
    return { type: "ArrowFunctionExpression", id: null, expression, generator: false, async: isAsync, params, body };
  }

  #class(type: "ClassDeclaration" | "ClassExpression"): Syntax {
    this.#expect("class");
    const id = this.#is("{") || this.#is("extends") ? null : this.#identifier();
    const superClass = this.#eat("extends") ? this.#subscripts(this.#primary(), true) : null;
    const body: Syntax[] = [];
    this.#expect("{");
    while (!this.#eat("}")) if (!this.#eat(";")) body.push(this.#member(true));
    return { type, id, superClass, body: { type: "ClassBody", body } };
  }

  /** A member of a class or, as `Property`, of an object. */
  #member(inClass: boolean): Syntax {
    const isWord = (): boolean => {
      const { kind, text } = this.#ahead();
      return kind === "end" || (kind === "punctuator" && "(,=;}:".includes(text));
    };
    let isStatic = false;
    if (inClass && this.#is("static") && !isWord()) {
      this.#next();
      if (this.#is("{")) {
        const around = this.#enter({ async: false, generator: false });
        const body = this.#statementsInBraces();
        this.#within = around;
        return { type: "StaticBlock", body };
      }
      isStatic = true;
    }
    let isAsync = false;
    let kind: "get" | "set" | "method" = "method";
    if (this.#is("async") && !isWord() && !this.#ahead().newline) {
      this.#next();
      isAsync = true;
    } else if ((this.#is("get") || this.#is("set")) && !isWord() && !this.#ahead().text.startsWith("*")) {
      kind = this.#next().text as "get" | "set";
    }
    const generator = this.#eat("*");
    const { key, computed } = this.#key();
    if (this.#is("(")) {
      const value = { type: "FunctionExpression", id: null, ...this.#functionRest({ async: isAsync, generator }) };
      if (!inClass)
        return {
          type: "Property",
          kind: kind === "method" ? "init" : kind,
          method: kind === "method",
          shorthand: false,
          computed,
          key,
          value,
        };
      const isConstructor = !isStatic && !computed && (key["name"] ?? key["value"]) === "constructor";
      return { type: "MethodDefinition", static: isStatic, kind: isConstructor ? "constructor" : kind, computed, key, value };
    }
    if (inClass) {
      const around = this.#enter({ async: false, generator: false });
      const value = this.#eat("=") ? this.#assignment() : null;
      this.#within = around;
      this.#semicolon();
      return { type: "PropertyDefinition", static: isStatic, computed, key, value };
    }
    const property = { type: "Property", kind: "init", method: false, computed, key };
    if (this.#eat(":")) return { ...property, shorthand: false, value: this.#assignment() };
    if (key.type !== "Identifier") this.#unexpected();
    // `{ a = 1 }` is valid only if it turns out to be a pattern.
    const value = this.#eat("=") ? { type: "AssignmentPattern", left: key, right: this.#assignment() } : key;
    return { ...property, shorthand: true, value };
  }

  #key(): { key: Syntax; computed: boolean } {
    if (this.#eat("[")) {
      const key = this.#allowingIn(() => this.#assignment());
      this.#expect("]");
      return { key, computed: true };
    }
    const { kind, text, node } = this.#token;
    if (kind === "literal") return (this.#next(), { key: node as Syntax, computed: false });
    if (kind !== "name" && kind !== "private") this.#unexpected();
    this.#next();
    const key = kind === "name" ? { type: "Identifier", name: text } : { type: "PrivateIdentifier", name: text.slice(1) };
    return { key, computed: false };
  }

  // Patterns

  #identifier(): Syntax {
    if (this.#token.kind !== "name" || RESERVED.has(this.#token.text)) this.#unexpected();
    return { type: "Identifier", name: this.#next().text };
  }

  #binding(): Syntax {
    if (this.#eat("[")) {
      const elements: (Syntax | null)[] = [];
      while (!this.#eat("]")) {
        if (this.#is(",")) elements.push(null);
        else elements.push(this.#eat("...") ? { type: "RestElement", argument: this.#binding() } : this.#bindingWithDefault());
        if (!this.#is("]")) this.#expect(",");
      }
      return { type: "ArrayPattern", elements };
    }
    if (!this.#eat("{")) return this.#identifier();
    const properties: Syntax[] = [];
    while (!this.#eat("}")) {
      properties.push(this.#eat("...") ? { type: "RestElement", argument: this.#binding() } : this.#boundProperty());
      if (!this.#is("}")) this.#expect(",");
    }
    return { type: "ObjectPattern", properties };
  }

  #boundProperty(): Syntax {
    const { key, computed } = this.#key();
    const property = { type: "Property", kind: "init", method: false, computed, key };
    if (this.#eat(":")) return { ...property, shorthand: false, value: this.#bindingWithDefault() };
    if (key.type !== "Identifier" || computed) this.#unexpected();
    return { ...property, shorthand: true, value: this.#withDefault(key) };
  }

  #bindingWithDefault(): Syntax {
    return this.#withDefault(this.#binding());
  }

  #withDefault(left: Syntax): Syntax {
    return this.#eat("=") ? { type: "AssignmentPattern", left, right: this.#allowingIn(() => this.#assignment()) } : left;
  }

  // Expressions

  #expression(): Syntax {
    const first = this.#assignment();
    if (!this.#is(",")) return first;
    const expressions = [first];
    while (this.#eat(",")) expressions.push(this.#assignment());
    return { type: "SequenceExpression", expressions };
  }

  #assignment(): Syntax {
    if (this.#within.generator && this.#is("yield")) return this.#yield();
    const arrow = this.#arrowHere();
    if (arrow !== undefined) return arrow;
    const left = this.#conditional();
    const operator = this.#token.text;
    if (this.#token.kind !== "punctuator" || !ASSIGNMENT.has(operator)) return left;
    this.#next();
    return { type: "AssignmentExpression", operator, left: operator === "=" ? patternOf(left) : left, right: this.#assignment() };
  }

  #yield(): Syntax {
    this.#next();
    const { newline, kind, text } = this.#token;
    if (newline || kind === "end" || (kind === "punctuator" && ")]},;:".includes(text)) || this.#is("in") || this.#is("of"))
      return { type: "YieldExpression", delegate: false, argument: null };
    const delegate = this.#eat("*");
    return { type: "YieldExpression", delegate, argument: this.#assignment() };
  }

  #arrowHere(): Syntax | undefined {
    if (this.#token.kind === "name" && !RESERVED.has(this.#token.text)) {
      const ahead = this.#ahead();
      if (ahead.text === "=>" && !ahead.newline) return this.#arrow(false, [this.#identifier()]);
      if (!this.#is("async") || ahead.newline || !(ahead.kind === "name" || ahead.text === "(") || ahead.text === "function")
        return undefined;
      return this.#tried(() => {
        this.#next();
        return this.#arrow(true, this.#eat("(") ? this.#parametersThen(true) : [this.#identifier()]);
      });
    }
    if (!this.#is("(")) return undefined;
    // If no arrow follows, it is an expression in parentheses.
    const params = this.#tried(() => {
      this.#next();
      return this.#parametersThen(this.#within.async);
    });
    return params && this.#arrow(false, params);
  }

  /** Parameters followed by an arrow. */
  #parametersThen(isAsync: boolean): Syntax[] {
    const around = this.#enter({ ...this.#within, async: isAsync });
    const params = this.#allowingIn(() => this.#parameters());
    this.#within = around;
    if (!this.#is("=>")) this.#unexpected();
    return params;
  }

  #conditional(): Syntax {
    const test = this.#binary(0);
    if (!this.#eat("?")) return test;
    const consequent = this.#allowingIn(() => this.#assignment());
    this.#expect(":");
    return { type: "ConditionalExpression", test, consequent, alternate: this.#assignment() };
  }

  /** @param above only operators that bind closer than this */
  #binary(above: number): Syntax {
    let left: Syntax;
    if (this.#token.kind === "private") left = { type: "PrivateIdentifier", name: this.#next().text.slice(1) };
    else left = this.#unary();
    for (;;) {
      const { kind, text: operator } = this.#token;
      const precedence = kind === "punctuator" || kind === "name" ? (Object.hasOwn(BINARY, operator) ? BINARY[operator] : 0) : 0;
      if (precedence === undefined || precedence <= above || (operator === "in" && this.#noIn)) return left;
      this.#next();
      const right = this.#binary(operator === "**" ? precedence - 1 : precedence);
      const type = precedence <= 3 ? "LogicalExpression" : "BinaryExpression";
      left = { type, operator, left, right };
    }
  }

  #unary(): Syntax {
    const { kind, text: operator } = this.#token;
    if (kind !== "name" && kind !== "punctuator") return this.#postfix();
    if (UNARY.has(operator)) {
      this.#next();
      return { type: "UnaryExpression", operator, prefix: true, argument: this.#unary() };
    }
    if (operator === "++" || operator === "--") {
      this.#next();
      return { type: "UpdateExpression", operator, prefix: true, argument: this.#unary() };
    }
    if (operator === "await" && this.#within.async) return (this.#next(), { type: "AwaitExpression", argument: this.#unary() });
    return this.#postfix();
  }

  #postfix(): Syntax {
    const argument = this.#subscripts(this.#primary(), true);
    if ((!this.#is("++") && !this.#is("--")) || this.#token.newline) return argument;
    return { type: "UpdateExpression", operator: this.#next().text, prefix: false, argument };
  }

  /** @param withCalls false for the operand of `new` */
  #subscripts(base: Syntax, withCalls: boolean): Syntax {
    let node = base;
    let isChain = false;
    for (;;) {
      const optional = withCalls && this.#eat("?.");
      isChain ||= optional;
      if (this.#eat("[")) {
        const property = this.#allowingIn(() => this.#expression());
        this.#expect("]");
        node = { type: "MemberExpression", object: node, property, computed: true, optional };
      } else if (withCalls && this.#is("(")) {
        node = { type: "CallExpression", callee: node, arguments: this.#arguments(), optional };
      } else if (this.#is("`")) {
        node = { type: "TaggedTemplateExpression", tag: node, quasi: this.#template() };
      } else if (optional || this.#eat(".")) {
        node = { type: "MemberExpression", object: node, property: this.#key().key, computed: false, optional };
      } else {
        return isChain ? { type: "ChainExpression", expression: node } : node;
      }
    }
  }

  #arguments(): Syntax[] {
    this.#expect("(");
    return this.#elements(")") as Syntax[];
  }

  #elements(end: string): (Syntax | null)[] {
    return this.#allowingIn(() => {
      const elements: (Syntax | null)[] = [];
      while (!this.#eat(end)) {
        if (this.#is(",")) elements.push(null);
        else elements.push(this.#eat("...") ? { type: "SpreadElement", argument: this.#assignment() } : this.#assignment());
        if (!this.#is(end)) this.#expect(",");
      }
      return elements;
    });
  }

  #primary(): Syntax {
    const { kind, text, start, node } = this.#token;
    if (kind === "literal") return (this.#next(), node as Syntax);
    if (kind === "name") return this.#word(text);
    if (text === "(") return this.#parenthesised();
    if (text === "[") return (this.#next(), { type: "ArrayExpression", elements: this.#elements("]") });
    if (text === "{") return this.#object();
    if (text === "`") return this.#template();
    const regex = text === "/" || text === "/=" ? this.#match(REGEX, start) : null;
    if (regex === null) this.#unexpected();
    this.#readAt(start + regex[0].length);
    return { type: "Literal", regex: { pattern: regex[1], flags: regex[2] } };
  }

  #word(text: string): Syntax {
    switch (text) {
      case "function":
        return this.#function(false);
      case "class":
        return this.#class("ClassExpression");
      case "new":
        return this.#new();
      case "this":
        return (this.#next(), { type: "ThisExpression" });
      case "super":
        return (this.#next(), { type: "Super" });
      case "null":
        return (this.#next(), { type: "Literal", value: null });
      case "true":
      case "false":
        return (this.#next(), { type: "Literal", value: text === "true" });
      case "import": {
        this.#next();
        if (this.#eat("."))
          return { type: "MetaProperty", meta: { type: "Identifier", name: "import" }, property: this.#identifier() };
        const [source, options = null] = this.#arguments();
        return { type: "ImportExpression", source, options };
      }
      case "async": {
        const ahead = this.#ahead();
        return ahead.text === "function" && !ahead.newline ? this.#function(false) : this.#identifier();
      }
      default:
        return this.#identifier();
    }
  }

  #new(): Syntax {
    this.#next();
    if (this.#eat(".")) return { type: "MetaProperty", meta: { type: "Identifier", name: "new" }, property: this.#identifier() };
    const callee = this.#subscripts(this.#primary(), false);
    return { type: "NewExpression", callee, arguments: this.#is("(") ? this.#arguments() : [] };
  }

  #object(): Syntax {
    this.#expect("{");
    return this.#allowingIn(() => {
      const properties: Syntax[] = [];
      while (!this.#eat("}")) {
        properties.push(this.#eat("...") ? { type: "SpreadElement", argument: this.#assignment() } : this.#member(false));
        if (!this.#is("}")) this.#expect(",");
      }
      return { type: "ObjectExpression", properties };
    });
  }

  #template(): Syntax {
    const quasis: Syntax[] = [];
    const expressions: Syntax[] = [];
    for (let from = this.#token.end; ;) {
      const end = this.#match(/(?:[^`\\$]|\\[^]|\$(?!\{))*/y, from)?.[0].length ?? 0;
      const raw = this.text.slice(from, from + end).replace(/\r\n?/g, "\n");
      const isLast = this.text[from + end] === "`";
      if (!isLast && this.text[from + end] !== "$") throw new SyntaxError(`a template without an end at ${from}`);
      quasis.push({ type: "TemplateElement", value: { raw, cooked: cookedOrNull(raw) }, tail: isLast });
      this.#readAt(from + end + (isLast ? 1 : 2));
      if (isLast) return { type: "TemplateLiteral", quasis, expressions };
      expressions.push(this.#allowingIn(() => this.#expression()));
      if (!this.#is("}")) this.#unexpected();
      from = this.#token.end;
    }
  }
}

/** Converts an expression that turns out to be assigned to. */
function patternOf(node: Syntax): Syntax {
  switch (node.type) {
    case "ArrayExpression":
      return {
        type: "ArrayPattern",
        elements: (node["elements"] as (Syntax | null)[]).map((element) => element && patternOf(element)),
      };
    case "ObjectExpression":
      return { type: "ObjectPattern", properties: (node["properties"] as Syntax[]).map(patternOf) };
    case "Property":
      return { ...node, value: patternOf(node["value"] as Syntax) };
    case "SpreadElement":
      return { type: "RestElement", argument: patternOf(node["argument"] as Syntax) };
    case "AssignmentExpression":
      return { type: "AssignmentPattern", left: node["left"], right: node["right"] };
    default:
      return node;
  }
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", b: "\b", f: "\f", v: "\v", "0": "\0" };

/** The value of a string literal. @throws {SyntaxError} for escapes that only templates may have, and for octal ones */
function cooked(text: string): string {
  if (/(?:^|[^\\])(?:\\\\)*\\0\d/.test(text)) throw new SyntaxError("an octal escape");
  return text.replace(
    /\\(?:u\{([\da-fA-F]+)\}|u([\da-fA-F]{4})|x([\da-fA-F]{2})|(\r\n|[^]))/g,
    (_, point?: string, unit?: string, byte?: string, char: string = "") => {
      const code = point ?? unit ?? byte;
      if (code !== undefined) return String.fromCodePoint(Number.parseInt(code, 16));
      if (/^[\n\r\u2028\u2029]/.test(char)) return "";
      if (/[1-9ux]/.test(char)) throw new SyntaxError(`unknown escape \\${char}`);
      return ESCAPES[char] ?? char;
    },
  );
}

/** Null for escapes that only a tagged template may contain. */
function cookedOrNull(raw: string): string | null {
  try {
    return cooked(raw);
  } catch {
    return null;
  }
}
