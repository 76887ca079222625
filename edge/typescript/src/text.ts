/** Text that people judge by: what they see must be what is there. The same as common/text.py. */

const ATTACHED = "\\u200c\\u200d\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}";
const HIDDEN =
  "\\0-\\x1f\\x7f-\\xa0\\u00ad\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180b-\\u180f\\u2000-\\u200b" +
  "\\u200e\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u2800\\u3164\\ud800-\\uf8ff\\ufeff\\uffa0\\ufff0-\\ufffb" +
  "\\ufffe\\uffff\\u{13430}-\\u{1345f}\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}" +
  "\\u{e0000}-\\u{e00ff}\\u{e01f0}-\\u{10ffff}";

/** Visible characters from U+0590 on. A joiner or selector is seen only directly after one. */
const CARRIER = `[^\\0-\\u058f${HIDDEN}${ATTACHED}]`;
const UNSEEN = new RegExp(`[${HIDDEN}]|(?<!${CARRIER})[${ATTACHED}]`, "u");

/** Whether people can judge by a text: nothing in it is hidden, and nothing changes how the rest looks. */
export function seen(text: string): boolean {
  return !UNSEEN.test(text);
}
