package android.webkit;

import android.content.Context;
import android.view.View;

public class WebView extends View {
    public WebView(Context context) {
        super(0, 0, 0, 0);
    }

    public WebSettings getSettings() {
        return new WebSettings();
    }

    public void addJavascriptInterface(Object object, String name) {}

    public void loadUrl(String url) {}
}
