"use strict";

const swc = require("@swc/jest");

/**
 * @swc/jest with one cache for all lanes. Its own key has jest's whole configuration in it. That differs from lane to lane, so each lane
 * would compile all sources again.
 */
module.exports = {
  createTransformer(options) {
    const transformer = swc.createTransformer(options);
    return {
      ...transformer,
      /** The text and the options of the compiler, and the path: source maps name it. */
      getCacheKey: (text, file, jestOptions) =>
        transformer.getCacheKey(text, file, { ...jestOptions, config: {}, configString: file }),
    };
  },
};
