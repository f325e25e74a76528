"""Messages: what a site sends, a class and a file for each kind.

Each class holds everything about its message: how it is chosen, answered at the site,
checked and combined at the server, which distribution or guarantee follows, and what it
discloses.
"""

from fedconformal.messages._base import (
    MESSAGES,
    Answer,
    Choice,
    DesignRequest,
    Message,
    check_plan,
    choose_message,
    claim,
    guarantee,
    largest_so_far,
    law,
    local_ranks,
    of,
    votes,
)
from fedconformal.messages._bin import BinMessage, mechanisms
from fedconformal.messages._cases import CasesMessage, draw_ranks
from fedconformal.messages._curve import CurveMessage
from fedconformal.messages._ranks import RanksMessage
