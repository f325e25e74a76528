"""One round over any engine: a question to every site, one answer from each, and the
names of missing sites.

An engine's adapter calls `pack_plan` at the server and `CALIBRATE.answer` at the sites,
and hands the replies to a `ReportCollection`, which keeps them in a `Folder` if it is
given one; `pack_calibration`, `CHECK.answer` and `CheckCollection` do the same for
checks. Nothing here depends on the message of a plan or on the engine.
"""

from fedconformal.rounds._collection import (
    CheckCollection,
    ReportCollection,
    check_options,
    check_present,
)
from fedconformal.rounds._folder import (
    PLAN_FILE,
    Folder,
    list_json,
    new_folder,
    read_reports,
)
from fedconformal.rounds._site import (
    CALIBRATE,
    CHECK,
    Failure,
    Question,
    Settings,
    Site,
    extract_field,
    log_and_mask,
    longest_report,
    pack_calibration,
    pack_plan,
    read_cases,
    unpack_calibration,
    unpack_check,
    unpack_plan,
    unpack_report,
)
