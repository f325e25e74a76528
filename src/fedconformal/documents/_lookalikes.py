"""Characters that look like others; written by ``tools/lookalikes.py``."""

LOOKALIKES = {
    '"': ("\xab\xbb\u02ba\u02ee\u201c\u201d\u201e\u201f\u2033\u2036"),
    "'": (
        "\xb4\u02b9\u02bb\u02bc\u02bd\u02be\u02bf"
        "\u02c8\u02ca\u02cb\u055a\u05f3\u05f4\u144a"
        "\u1fbd\u1fbf\u1ffe\u2018\u2019\u201a\u201b"
        "\u2032\u2035\ua78c"
    ),
    ",": ("\u060c\u066c"),
    "-": (
        "\u02d7\u058a\u05be\u1400\u1806\u2010\u2011"
        "\u2012\u2013\u2014\u2015\u2043\u2212\u23af"
        "\u2500\u2501\u2796\u2e17\u2e1a\u2e3a\u2e3b"
        "\u2e40\u2e5d\u301c\u3030\u30a0\ufe31\ufe32"
        "\ufe58\U00010ead"
    ),
    "/": ("\u2044\u2215\u2571\u27cb\u29f8"),
    "2": ("\u01a7\u14bf"),
    "3": ("\u01b7\u021c\u0417\u04e0\ua76a"),
    "4": ("\u13ce\uab9e"),
    "5": ("\u01bc"),
    "6": ("\u0431\u13ee\uabbe"),
    "8": ("\u0222\u0223"),
    ":": ("\u02d0\u0589\u05c3\u16ec\u2236\ua789"),
    "A": ("\u0391\u0410\u13aa\u15c5\ua4ee\U000102a0\U00016f40"),
    "B": ("\u0392\u0412\u13f4\u15f7\ua4d0\ua7b4\U00010282\U000102a1\U00010301"),
    "C": ("\u03f9\u0421\u13df\u2ca4\ua4da\U000102a2\U00010302\U00010415\U0001051c"),
    "D": ("\u13a0\u15de\u15ea\ua4d3"),
    "E": ("\u0395\u0415\u13ac\u22ff\u2d39\ua4f0\U00010286"),
    "F": ("\u03dc\u15b4\ua4dd\ua798\U00010287\U000102a5\U00010525"),
    "G": ("\u050c\u13c0\u13f3\ua4d6\U0001051d"),
    "H": ("\u0397\u041d\u13bb\u157c\u2c8e\ua4e7"),
    "I": ("\u0399\u0406\u13c6\u16c1\u2c92\u2d4f\ua4f2\U0001028a\U00010309"),
    "J": ("\u037f\u0408\u13ab\u148d\ua4d9\ua7b2"),
    "K": ("\u039a\u041a\u13e6\u16d5\u2c94\ua4d7\U00010518"),
    "L": ("\u053c\u13de\u14aa\u2cd0\ua4e1\U0001041b\U00010526\U00016f16"),
    "M": ("\u039c\u03fa\u041c\u13b7\u15f0\u16d6\u2c98\ua4df\U000102b0\U00010311"),
    "N": ("\u039d\u2c9a\ua4e0\U00010513"),
    "O": (
        "\u039f\u041e\u0555\u12d0\u2c9e\u2d54\u3007"
        "\ua4f3\U00010292\U000102ab\U00010404\U000104c2\U00010516"
    ),
    "P": ("\u03a1\u0420\u13e2\u146d\u2ca2\ua4d1\U00010295"),
    "Q": ("\u051a\u2d55"),
    "R": ("\u01a6\u13a1\u13d2\u1587\ua4e3\U00016f35"),
    "S": ("\u0405\u054f\u13d5\u13da\ua4e2\U00010296\U00010420"),
    "T": (
        "\u03a4\u0422\u13a2\u22a4\u2ca6\ua4d4\U00010297\U000102b1\U00010315\U00016f0a"
    ),
    "U": ("\u054d\u1200\u144c\u222a\u22c3\ua4f4\U000104ce"),
    "V": ("\u0474\u13d9\u142f\u2d38\ua4e6\U00016f08"),
    "W": ("\u051c\u13b3\u13d4\ua4ea"),
    "X": (
        "\u03a7\u0425\u166d\u16b7\u2573\u2cac\u2d5d"
        "\ua4eb\ua7b3\U00010290\U000102b4\U00010317"
    ),
    "Y": ("\u03a5\u03d2\u0423\u04ae\u13a9\u13bd\u2ca8\ua4ec\U000102b2"),
    "Z": ("\u0396\u13c3\ua4dc"),
    "a": ("\u0251\u03b1\u0430\u1d00\u237a\uab7a"),
    "b": ("\u0299\u044c\u13cf\u13fc\u1472\u15af\uab9f"),
    "c": ("\u03f2\u0441\u1d04\u2ca5\uabaf\U0001043d"),
    "d": ("\u0501\u13e7\u146f\u1d05\ua4d2\uab70\uabb7"),
    "e": ("\u0435\u04bd\u1d07\u212e\uab32\uab7c"),
    "f": ("\u03dd\u0584\u1e9d\ua730\uab35"),
    "g": ("\u018d\u0261\u0262\u0581\u13fb\u1d83\uab90"),
    "h": ("\u029c\u04bb\u0570\u13c2\uab8b\uab92"),
    "i": ("\u0131\u0269\u026a\u03b9\u0456\u13a5\u2373\uab75\uab96"),
    "j": ("\u0237\u03f3\u0458\u0575\u1d0a\uab7b"),
    "k": ("\u03ba\u043a\u1d0b\uabb6"),
    "l": ("\u0196\u01c0\u029f\u04c0\u04cf\u05d5\u05df\u2223\uabae"),
    "m": ("\u1d0d\uab87"),
    "n": ("\u0274\u03b7\u043f\u0578\u057c"),
    "o": ("\u03bf\u03c3\u043e\u0585\u05e1\u10ff\u1d0f\u1d11\u2c9f\U0001042c\U000104ea"),
    "p": ("\u03c1\u03f1\u0440\u1d18\u2374\u2ca3\uabb2"),
    "q": ("\u051b\u0563\u0566\ua7af"),
    "r": ("\u0280\u0433\u1d26\u2c85\uab71\uaba2"),
    "s": ("\u01bd\u0455\ua731\uaba5\uabaa\U00010448"),
    "t": ("\u03c4\u1d1b\uab72"),
    "u": ("\u028b\u03c5\u057d\u1d1c\ua79f"),
    "v": ("\u03bd\u0475\u05d8\u1d20\u2228\u22c1\uaba9"),
    "w": ("\u026f\u03c9\u0461\u051d\u0561\u1d21\uab83\uaba4"),
    "x": ("\xd7\u03c7\u0445\u1541\u157d\u166e\u292b\u292c\u2a2f"),
    "y": ("\u0263\u028f\u03b3\u0443\u04af\u10e7\u1d8c\u1eff\uab79\uab8d"),
    "z": ("\u1d22\uab93"),
    "~": ("\u02dc\u2053\u223c"),
    "\xb7": ("\u16eb\u2022\u2027\u2219\u22c5\u30fb"),
    "\u0643": ("\u06a9"),
    "\u0647": ("\u06be\u06c1\u06d5"),
    "\u064a": ("\u0649\u06cc"),
    "\u3078": ("\u30d8"),
    "\u308a": ("\u30ea"),
    "\u30fc": ("\u4e00"),
    "\u4e09": ("\u30df"),
    "\u4e28": ("\u3021"),
    "\u4e8c": ("\u30cb"),
    "\u516b": ("\u30cf"),
    "\u529b": ("\u30ab"),
    "\u535c": ("\u30c8"),
    "\u53e3": ("\u30ed"),
    "\u5915": ("\u30bf"),
    "\u5de5": ("\u30a8"),
}
"""By what they look like."""
