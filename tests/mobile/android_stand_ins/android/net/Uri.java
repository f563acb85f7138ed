package android.net;

public class Uri {
    public String getLastPathSegment() {
        return "msf:31";
    }
}
