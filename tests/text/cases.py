"""The texts that make_goldens.py encodes, and that compare_tokenizers.py makes random texts from."""

CODE = '''#include <vector>
template <typename T>\tT sum(const std::vector<T>& v) {\r
    T s{};   for (auto x : v) s += x;\r
    return s;  // x != y && z <= 0x7FFF_FFFF ? "a\\n" : 'b';
}
'''

TEXTS = [
    "",
    " ",
    "a",
    "\n",
    "Hello, world!",
    " Hello  world ",
    "   leading and trailing   ",
    "it's they're we've I'm he'll she'd don't IT'S",
    "tabs\tand\n\nnewlines\r\n \n  x \t y",
    "1 12 123 1234 12345 3.14159 1,000,000 ½ ² Ⅷ ٣٤٥ 一二三",
    "naïve café résumé Ångström coöperate",
    "nai\u0308ve cafe\u0301 A\u030angstro\u0308m e\u0301\u0327\u0323 \u0301x",
    "ﬁnancial ﬂow ｆｕｌｌｗｉｄｔｈ ① ㍿ ℌ ﷺ",
    "İstanbul ISTANBUL ısı ẞ ß Σίσυφος ΣΑΣ Ǆ ŉ",
    "👍 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️ 😀😃😄",
    "Все люди рождаются свободными и равными",
    "人人生而自由，在尊严和权利上一律平等。",
    "すべての人間は、ｶﾞｷﾞｸﾞ が゙ ガ",
    "모든 인간은 태어날 때부터 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "سلام عليكم ورحمة الله",
    "שָׁלוֹם עֲלֵיכֶם",
    "सभी मनुष्यों को गौरव और अधिकारों क्षत्रिय",
    "มนุษย์ทั้งหลายเกิดมามีอิสระ",
    "Tiếng Việt được viết bằng chữ Quốc ngữ",
    "\u00a0nbsp\u2003em\u2009thin\u200bzero\u202fnarrow\u3000ideographic\u2028line\u2029paragraph\u0085next\ufeffbom",
    "control \x00\x01\x07\x08\x0b\x0c\x1b\x7f\x80\x8f\x9f characters \ufffd\ufffe",
    "soft\u00adhyphen zero\u200cwidth\u200djoiner \u202eright to left\u202c \u2066isolate\u2069",
    "... --- !!! ??? «» “quotes” ‘single’ — – • § ¶ † $ € ¥ £ + < = > ^ ` | ~",
    "a.b,c;d:e!f?g-h_i/j\\k|l(m)n[o]p{q}r",
    "https://www.example.com/path?query=1&other=2#fragment user@example.org",
    "\u2581already\u2581marked \u2581 \u2581\u2581 text",
    "Ġbyte Ċcharacters Ä Ł ĳ ÿ",
    "<0x41> <0x0A> <unk> < 0x41>",
    "x" * 300,
    "ab" * 150 + " " + "字" * 60,
    " " * 40 + "x" + "\n" * 20 + "\t" * 7 + "y",
    "the the the the of and to in a is",
    "snowman☃comet☄ 𝒜𝓁𝑔𝑒𝒷𝓇𝒶 𐍈 𒀀 🂡 \U000e0001 \ue000 \U0010fffd",
    "\u0378 \U0001f8ff unassigned then",
    "tab\tspace nonspace\u3000end ",
    "Word##piece ##prefix un##known",
    "don't won't can't n't 's do not",
    CODE,
    "def f(x):\n\tif x:\n\t\treturn {'a': [1, 2, 3]}\n\n\n    # comment\n",
    "A" * 100 + " " + "word" * 30,
    "end with newline\n",
    "end with spaces   \n   ",
    "camelCase snake_case SCREAMING_CASE kebab-case PascalCase XMLHttpRequest",
]

# How special and added tokens stand beside text.
AROUND = ["{}", "a{}b", " {} ", "a {} b", "{0}{0}", "x  {}\n\ty", "{} x{}", "ü{}ü", ".{}.", "_{}1", "{}\u00a0 z"]
