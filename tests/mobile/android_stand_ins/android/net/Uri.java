package android.net;

public class Uri {
    public String text = "";

    public static Uri parse(String text) {
        Uri found = new Uri();
        found.text = text;
        return found;
    }

    public static Uri fromParts(String scheme, String rest, String fragment) {
        return parse(scheme + ":" + rest + (fragment == null ? "" : "#" + fragment));
    }

    public String getLastPathSegment() {
        return "msf:31";
    }
}
