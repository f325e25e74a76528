"""Characters that look like others: ``python tools/lookalikes.py --write``, then
``make format``.

Writes ``src/fedconformal/documents/_lookalikes.py``, by which names of sites, groups
and classes are compared. The pairs are those of the lists below, after the confusable
characters of Unicode Technical Standard 39, and what Unicode's own data say of small
capitals and dashes. Characters whose compatibility form (NFKC) is the plain one need no
entry, as fullwidth and mathematical letters. ASCII characters are told apart from each
other, 0 from O and 1 from l too.
"""

import sys
import unicodedata
from pathlib import Path

OUTPUT = (
    Path(__file__).parent.parent / "src" / "fedconformal" / "documents"
) / "_lookalikes.py"

GREEK = {
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX", strict=True)),
    **dict(zip("αικνορτυχγσωη", "aikvoptuxyown", strict=True)),
    **dict(zip("ϹϲϺϜϝͿϳϒϱ", "CcMFfJjYp", strict=True)),
}
CYRILLIC = {
    **dict(zip("АВЕЗІЈКМНОРСТУХЅҮӀѴԌԜԚӠ", "ABE3IJKMHOPCTYXSYlVGWQ3", strict=True)),
    **dict(zip("абгеіјкорсухѕүһҽӏѵԁԛԝѡпьᴦ", "a6reijkopcyxsyhelvdqwwnbr", strict=True)),
}
ARMENIAN = {
    **dict(zip("ՍՏՕԼ", "USOL", strict=True)),
    **dict(zip("ագզհոռսցքօյ", "wqqhnnugfoj", strict=True)),
}
GEORGIAN = dict(zip("ყჿ", "yo", strict=True))
COPTIC = {
    **dict(zip("ⲎⲒⲔⲘⲚⲞⲢⲤⲦⲨⲬⳐ", "HIKMNOPCTYXL", strict=True)),
    **dict(zip("ⲟⲣⲥⲅ", "opcr", strict=True)),
}
HEBREW = dict(zip("וןסט", "llov", strict=True))
ETHIOPIC = dict(zip("ሀዐ", "UO", strict=True))
CHEROKEE = dict(
    zip(
        "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏎᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᏮᏳᏴᏆ",
        "DRTiYAJEWMHYGhZ4bRWSVSLCPKd6GBI",
        strict=True,
    )
)
CHEROKEE |= {letter.lower(): target.lower() for letter, target in CHEROKEE.items()}
CANADIAN = dict(zip("ᐯᑌᑭᑯᒍᒪᒿᕁᕼᕽᖇᖯᑲᖴᗅᗞᗪᗰᗷ᙭᙮", "VUPdJL2xHxRbbFADDMBXx", strict=True))
LISU = dict(
    zip("ꓐꓑꓒꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ", "BPdDTGKJCZFMNLSRVHWXYAEIOU", strict=True)
)
TIFINAGH = dict(zip("ⴸⴹⵏⵔⵕⵝ", "VEIOQX", strict=True))
RUNIC = dict(zip("ᚷᛁᛕᛖ", "XIKM", strict=True))
HISTORIC = {
    **dict(zip("𐊂𐊆𐊇𐊊𐊐𐊒𐊕𐊖𐊗", "BEFIXOPST", strict=True)),  # Lycian
    **dict(zip("𐊠𐊡𐊢𐊥𐊫𐊰𐊱𐊲𐊴", "ABCFOMTYX", strict=True)),  # Carian
    **dict(zip("𐌁𐌂𐌉𐌑𐌕𐌗", "BCIMTX", strict=True)),  # Old Italic
    **dict(zip("𐐄𐐕𐐛𐐠𐐬𐐽𐑈", "OCLSocs", strict=True)),  # Deseret
    **dict(zip("𐓂𐓎𐓪", "OUo", strict=True)),  # Osage
    **dict(zip("𐔓𐔖𐔘𐔜𐔝𐔥𐔦", "NOKCGFL", strict=True)),  # Elbasan
    **dict(zip("𖼈𖼖𖼊𖼵𖽀", "VLTRA", strict=True)),  # Miao
}
LATIN = {
    **dict(zip("ƖƦƧƷƼȜȢȣꝪꞘꞲꞳꞴ", "lR2353883FJXB", strict=True)),
    **dict(zip("ıȷɑɡɣɩɯʋƍƽẝỿᴑᶃᶌǀꞟꬵꬲ", "ijagyiwugsfyogylufe", strict=True)),
}
SYMBOLS = {
    **dict(zip("∪∨⋁⋃⊤⋿∣×⨯⤫⤬╳℮⍳⍴⍺", "UvvUTElxxxxXeipa", strict=True)),
    **dict.fromkeys("‘’‚‛′‵ʹʻʼʽʾʿˈˊˋ´`՚׳״ꞌᑊ᾽᾿῾", "'"),
    **dict.fromkeys("“”„‟″‶ʺˮ«»", '"'),
    **dict.fromkeys("·•∙‧・᛫⋅", "·"),
    **dict.fromkeys("⁄∕╱⟋⧸", "/"),
    **dict.fromkeys("։׃ː∶꞉᛬ː", ":"),
    **dict.fromkeys("٬،", ","),
    **dict.fromkeys("−⁃˗➖─━⎯", "-"),
    **dict.fromkeys("⁓∼˜", "~"),
}
EAST_ASIAN = {
    **dict(zip("エカタトニハロミヘリ", "工力夕卜二八口三へり", strict=True)),
    **dict(zip("一〡丨", "ー丨丨", strict=True)),
    **dict(zip("〇", "O", strict=True)),
}
ARABIC = dict(zip("یىکہەھ", "ييكههه", strict=True))
LISTS = (
    *(GREEK, CYRILLIC, ARMENIAN, GEORGIAN, COPTIC, HEBREW, ETHIOPIC, CHEROKEE),
    *(CANADIAN, LISU, TIFINAGH, RUNIC, HISTORIC, LATIN, SYMBOLS, EAST_ASIAN, ARABIC),
)
SMALL_CAPITAL = "LATIN LETTER SMALL CAPITAL "

HEAD = '''"""Characters that look like others; written by ``tools/lookalikes.py``."""

LOOKALIKES = {
'''
TAIL = '''
}
"""By what they look like."""
'''


def collect() -> dict[str, str]:
    """Return what each character looks like."""
    pairs: dict[str, str] = {}
    for code in range(0x80, 0x110000):
        character = chr(code)
        name = unicodedata.name(character, "")
        letter = name.removeprefix(SMALL_CAPITAL)
        if len(letter) == 1 and letter != name:
            pairs[character] = letter.lower()
        elif unicodedata.category(character) == "Pd":
            pairs[character] = "-"
    for listed in LISTS:
        pairs.update(listed)
    return {
        character: target
        for character, target in pairs.items()
        if unicodedata.normalize("NFKC", character) != target and ord(character) > 127
    }


def render(pairs: dict[str, str]) -> str:
    """Return the module: what looks alike stands in one string."""
    alike: dict[str, str] = {}
    for character in sorted(pairs):
        target = pairs[character]
        alike[target] = alike.get(target, "") + character
    lines = []
    for target in sorted(alike):
        starts = range(0, len(alike[target]), 7)
        parts = [_quote(alike[target][start : start + 7]) for start in starts]
        lines.append(f"    {_quote(target)}: ({' '.join(parts)}),")
    return HEAD + "\n".join(lines) + TAIL


def _quote(text: str) -> str:
    escaped = "".join(_escape(character) for character in text)
    return f'"{escaped}"'


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return ascii(character)[1:-1] if character != "'" else character


if __name__ == "__main__":
    text = render(collect())
    if "--write" in sys.argv[1:]:
        OUTPUT.write_text(text)
    else:
        print(text)
